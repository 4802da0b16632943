"""The gateway's image holds what the gateway imports, and no torch."""

import subprocess
import sys

import pytest

from scripts import image_requirements

# Hides every distribution that the image does not install, then imports all that a gateway's pod runs.
PROBE = """
import importlib.metadata as metadata, re, sys

def canonical(name):
    return re.sub(r"[-_.]+", "-", name).lower()

kept, pending = set(), [canonical(re.match(r"[\\w.-]+", line).group()) for line in sys.argv[1:]]
while pending:
    name = pending.pop()
    if name in kept:
        continue
    kept.add(name)
    try:
        needs = metadata.requires(name) or []
    except metadata.PackageNotFoundError:
        continue
    pending += [canonical(re.match(r"[\\w.-]+", need).group()) for need in needs if "extra ==" not in need]

class Hide:
    hidden = {
        module for module, names in metadata.packages_distributions().items()
        if not {canonical(name) for name in names} & (kept | {"forerun"})
    }
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in self.hidden:
            raise ModuleNotFoundError(f"the image has no {name}", name=name)

sys.meta_path.insert(0, Hide())
import gateway.__main__, gateway.process, forerun.cli, forerun.models.fetch, huggingface_hub
import opentelemetry.exporter.otlp.proto.grpc.trace_exporter, uvicorn.loops.auto, uvicorn.protocols.http.auto
print(sorted(name for name in ("torch", "transformers", "safetensors") if name in sys.modules))
"""


def probe(lines):
    return subprocess.run([sys.executable, "-c", PROBE, *lines], capture_output=True, text=True, timeout=60)


def test_the_gateway_runs_on_what_its_image_installs():
    result = probe(image_requirements.requirements("gateway"))
    assert (result.returncode, result.stdout.strip()) == (0, "[]"), result.stderr


@pytest.mark.parametrize("needed", ["fastapi", "tokenizers", "uvicorn"])
def test_control_without_a_library_that_it_needs_it_does_not(needed):
    lines = [line for line in image_requirements.requirements("gateway") if not line.startswith(f"{needed}==")]
    result = probe(lines)
    assert result.returncode != 0
    assert "the image has no" in result.stderr


def test_the_gateways_image_has_no_torch_and_the_services_install_it_apart():
    for image in ("gateway", "services"):
        assert not any(line.startswith("torch==") for line in image_requirements.requirements(image))
    assert any(line.startswith("transformers==") for line in image_requirements.requirements("services"))


def test_an_unknown_image_is_refused():
    with pytest.raises(SystemExit, match="no image"):
        image_requirements.requirements("ray")
