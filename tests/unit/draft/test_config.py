"""The draft's flags are refused at the start where no request could be served with them."""

import pytest

from draft_service.config import DraftConfig
from forerun.errors import ConfigError
from forerun.rpc.convert import MAX_SUPPORT


@pytest.mark.parametrize("support", [-1, 0, MAX_SUPPORT + 1])
def test_a_support_that_no_law_can_have_names_its_flag(support):
    with pytest.raises(ConfigError, match=f"--support is 1 to 4096, not {support}"):
        DraftConfig(support=support)


def test_the_least_and_the_most_are_taken():
    assert [DraftConfig(support=support).support for support in (1, MAX_SUPPORT)] == [1, 4096]
