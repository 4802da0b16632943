"""The gateway's flags: what cannot work is refused at start, by its name."""

import pytest

from forerun.errors import ConfigError
from gateway.api.limits import Limits
from gateway.config import GatewayConfig, addresses

LIMIT = Limits().num_draft_tokens


@pytest.mark.parametrize(("text", "k"), [("auto", None), ("0", 0), ("8", 8), (str(LIMIT), LIMIT)])
def test_k_is_auto_or_a_number_up_to_what_a_request_may_ask_for(text, k):
    assert GatewayConfig(num_draft_tokens=text).fixed_num_draft_tokens == k


@pytest.mark.parametrize("text", ["", "-1", "4.5", "many", str(LIMIT + 1), "1000"])
def test_any_other_k_is_refused_by_the_flags_name(text):
    with pytest.raises(ConfigError, match=r"^--num-draft-tokens .*"):
        GatewayConfig(num_draft_tokens=text)


@pytest.mark.parametrize("k", [-1, 0, LIMIT + 1])
def test_a_bound_for_auto_that_no_proposal_could_have_is_refused_by_the_flags_name(k):
    with pytest.raises(ConfigError, match=rf"^--max-num-draft-tokens .* {LIMIT}"):
        GatewayConfig(max_num_draft_tokens=k)


def test_an_address_without_a_port_is_refused_by_the_flags_name():
    assert addresses(" a:1, ,b:2", "--x") == ["a:1", "b:2"]
    with pytest.raises(ConfigError, match="--x: 'host' is not host:port"):
        addresses("host", "--x")
