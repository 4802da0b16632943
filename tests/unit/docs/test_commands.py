"""The commands in README and docs/ have only flags that exist, in spelling and in value."""

import re
import shlex

import pytest

from draft_service.config import DraftConfig
from forerun import config as settings
from forerun.models.fetch import FetchConfig
from forerun.up.config import UpConfig
from gateway.config import GatewayConfig
from target_service.config import TargetConfig
from tests.support.documents import DOCS, blocks, names, read

CONFIGS = {"draft": DraftConfig, "target": TargetConfig, "gateway": GatewayConfig, "fetch": FetchConfig, "up": UpConfig}
FILES = (DOCS.parent / "README.md", *sorted(DOCS.glob("*.md")))


def commands(text):
    """(name, arguments) of every `forerun …` line of a block of code."""
    for block in blocks(text, "[a-z]*"):
        for line in block.replace("\\\n", " ").splitlines():
            found = re.match(r"(?:\S*/)?forerun (\S+)(.*)", line)
            if found and found[1] in CONFIGS:
                yield found[1], shlex.split(found[2].partition(" > ")[0], comments=True)


COMMANDS = [(path.name, *command) for path in FILES for command in commands(path.read_text(encoding="utf-8"))]


@pytest.mark.parametrize(("file", "name", "arguments"), COMMANDS)
def test_a_command_is_understood(file, name, arguments):
    settings.parse(CONFIGS[name], arguments, name, environ={})


@pytest.mark.parametrize("file", ["api.md", "by-hand.md", "metrics.md"])
def test_a_flag_named_in_the_text_exists(file):
    known = {"--" + field.replace("_", "-") for each in CONFIGS.values() for field in each.__dataclass_fields__}
    known |= {"--target", "--draft", "--help"}
    told = {word for name in names(read(file)) for word in re.findall(r"(?<![\w-])--[a-z][a-z-]+(?![\w-])", name)}
    assert told <= known


def test_commands_are_found():
    assert {command[1] for command in COMMANDS} >= {"draft", "target", "gateway", "fetch"}
