"""Flags that cannot work are refused with the flag's name and what would be right."""

import pytest

from forerun.config import parse
from forerun.errors import ConfigError
from forerun.training.config import DistillConfig, check
from forerun.training.layers import choose_layers


def refused(*flags):
    config = parse(DistillConfig, ("--out", "somewhere", *flags), "forerun distill", environ={})
    with pytest.raises(ConfigError) as refusal:
        check(config)
    return str(refusal.value)


def test_defaults_are_fine_once_there_is_a_folder():
    check(parse(DistillConfig, ("--out", "somewhere"), "forerun distill", environ={}))


def test_the_folder_has_to_be_named():
    with pytest.raises(ConfigError, match="--out is missing"):
        check(parse(DistillConfig, (), "forerun distill", environ={}))


@pytest.mark.parametrize(
    "flags",
    [
        ("--tokens", "0"),
        ("--minutes", "0"),
        ("--minutes", "-3"),
        ("--data-share", "1"),
        ("--prompts-share", "0"),
        ("--prompts-share", "1.1"),
        ("--top-k", "0"),
        ("--vocab", "-1"),
        ("--sequences", "0"),
        ("--batch-tokens", "0"),
        ("--learning-rate", "0"),
        ("--seed", "-1"),
        ("--max-tokens", "0"),
        ("--checkpoint-minutes", "0"),
    ],
)
def test_a_bad_value_is_refused_by_name(flags):
    assert (message := refused(*flags)).startswith(flags[0])
    assert flags[1] in message


@pytest.mark.parametrize(
    ("text", "layers"),
    [
        ("1", (0,)),
        ("2", (0, 29)),
        ("4", (0, 10, 19, 29)),
        ("30", tuple(range(30))),
        ("0,1,28,29", (0, 1, 28, 29)),
        ("7,", None),
    ],
)
def test_layers_are_a_number_or_a_list(text, layers):
    if layers is None:
        with pytest.raises(ConfigError, match="--layers"):
            choose_layers(text, 30)
    else:
        assert choose_layers(text, 30) == layers


@pytest.mark.parametrize("text", ["0", "31", "-1", "two", "", "0,0", "3,1", "0,30", "-1,2"])
def test_layers_that_the_target_lacks_are_refused(text):
    with pytest.raises(ConfigError, match="--layers"):
        choose_layers(text, 30)
