"""The table of rules."""

import pytest

from forerun import registry
from forerun.errors import ConfigError
from forerun.types import Verification
from target_service.rules import RULES


def test_every_verification_has_a_rule_and_every_rule_loads():
    assert set(RULES) == {verification.value for verification in Verification}
    for name in RULES:
        registry.load(RULES, name, "rule")(1, 0, 8)


def test_an_unknown_rule_is_an_error_that_lists_the_known_ones():
    with pytest.raises(ConfigError, match="match, rejection"):
        registry.load(RULES, "hope", "rule")
