"""The Dockerfile copies what is there, builds three images, and gives each the ports that its program takes."""

import fnmatch
import re
import tomllib

import pytest

from scripts.k8s_check.code import SERVICES, serving_ports, settings
from scripts.k8s_check.programs import entrypoints
from tests.k8s.conftest import ROOT

TEXT = (ROOT / "Dockerfile").read_text()
COMMENT = re.compile(r"^#.*\n", re.MULTILINE)
STAGES = re.findall(r"^FROM (\S+) AS (\S+)$", TEXT, re.MULTILINE)
BODIES = dict(
    zip(
        [name for _, name in STAGES], re.split(r"^FROM .*$", COMMENT.sub("", TEXT), flags=re.MULTILINE)[1:], strict=True
    )
)


def ancestors(stage):
    """The stage and all that it is built from."""
    known = {name: base for base, name in STAGES}
    return [stage, *(ancestors(known[stage]) if known[stage] in known else [])]


def instruction(stage, name):
    return re.findall(rf"^{name} (.*)$", BODIES[stage], re.MULTILINE)


def test_there_are_three_images():
    assert entrypoints(TEXT) == {name: ["forerun", name] for name in SERVICES}


@pytest.mark.parametrize("name", SERVICES)
def test_an_image_exposes_the_ports_that_its_program_takes_by_default(name):
    config = settings(name, [], {})
    assert instruction(name, "EXPOSE") == [" ".join(map(str, serving_ports(name, config).values()))]


@pytest.mark.parametrize("name", SERVICES)
def test_an_image_runs_as_the_user_of_the_manifests(name):
    assert instruction(name, "USER") == ["10001"]


def test_the_gateways_image_has_no_torch_and_no_compiler():
    assert ancestors("gateway") == ["gateway", "runtime"]
    for stage in ancestors("gateway"):
        assert not re.search(r"torch|services\.txt|apt-get", BODIES[stage])
    assert all("engine" in ancestors(name) for name in ("draft", "target"))


def test_what_is_copied_is_there_and_is_not_ignored():
    ignored = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if not line.startswith("#")]
    assert ignored[0] == "*"
    sources = [word for line in instruction("build", "COPY") for word in line.split()[:-1]]
    assert len(sources) == 9
    for source in sources:
        assert (ROOT / source).exists()
        assert f"!{source}" in ignored
    assert any(fnmatch.fnmatch("forerun/engine/__pycache__", line) for line in ignored)


def test_what_runs_and_is_pinned_is_what_the_project_has():
    for script in re.findall(r"python (?:/src/)?(scripts/\w+\.py)", TEXT):
        assert (ROOT / script).is_file()
    pinned = re.search(r"^MODEL_PACKAGE := (\S+)$", (ROOT / "Makefile").read_text(), re.MULTILINE).group(1)
    assert pinned in BODIES["bundled"]
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    told = TEXT + (ROOT / "docs" / "operations.md").read_text()
    named = {extra for found in re.findall(r"EXTRAS=([\w,-]+)", told) for extra in found.split(",")}
    assert named and named <= extras.keys()
