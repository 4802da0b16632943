"""gpu-check where there is no GPU, rehearsed with what a GPU image lacks, and with a check that breaks."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from benchmarks.gpu_check import __main__ as gpu_check
from benchmarks.gpu_check import backends
from benchmarks.gpu_check.check import Place, Skip

ROOT = Path(__file__).parents[3]
ABSENT = ("grpc", "grpc_tools", "opentelemetry", "fastapi", "uvicorn", "prometheus_client", "gguf", "httpx", "scipy")
WITHOUT = """
import runpy, sys
for name in {absent}: sys.modules[name] = None
sys.argv = ["gpu_check", *{arguments}]
runpy.run_module("benchmarks.gpu_check", run_name="__main__")
"""


@pytest.fixture
def no_gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


def test_without_a_gpu_it_says_so_and_ends_well(no_gpu, capsys):
    assert gpu_check.main([]) == 0
    assert "no CUDA device, so nothing was checked" in capsys.readouterr().out


def test_a_rehearsal_runs_through_without_the_services_libraries(tmp_path):
    arguments = ["--rehearse", "--only", "backends,fp8,flops,pair", "--json", str(tmp_path / "found.json")]
    script = WITHOUT.format(absent=ABSENT, arguments=arguments)
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "nothing failed" in done.stdout
    found = json.loads((tmp_path / "found.json").read_text())
    assert found["environment"]["torch"] == torch.__version__
    statuses = {name: {finding["status"] for finding in findings} for name, findings in found["findings"].items()}
    assert statuses == {
        "backends": {"ok"},
        "fp8": {"ok"},
        "flops": {"measured", "skipped"},
        "pair": {"measured", "ok"},
    }
    skipped = [each for each in found["findings"]["flops"] if each["status"] == "skipped"]
    assert all("No module named" in each["figure"] for each in skipped)


def test_one_check_that_breaks_stops_no_other_and_is_told(no_gpu, monkeypatch, tmp_path, capsys):
    def breaks(place):
        yield from ()
        raise ZeroDivisionError("of course")

    monkeypatch.setattr(backends, "check", breaks)
    path = tmp_path / "found.json"
    assert gpu_check.main(["--rehearse", "--only", "backends,fp8", "--json", str(path)]) == 1
    found = json.loads(path.read_text())["findings"]
    assert found["backends"] == [
        {"name": "backends", "status": "failed", "figure": "ZeroDivisionError: of course", "value": None}
    ]
    assert {finding["status"] for finding in found["fp8"]} == {"ok"}
    assert "failed: backends" in capsys.readouterr().out


def test_a_check_that_cannot_run_is_skipped_with_its_reason(monkeypatch, capsys):
    def skips(place):
        yield from ()
        raise Skip("this GPU is too old")

    monkeypatch.setattr(backends, "check", skips)
    assert gpu_check.run("backends", Place(torch.device("cpu"), is_rehearsal=True))[0]["status"] == "skipped"
    assert "this GPU is too old" in capsys.readouterr().out


def test_when_its_time_is_over_a_check_leaves_out_the_rest():
    findings = gpu_check.run("backends", Place(torch.device("cpu"), is_rehearsal=True), deadline_s=0.0)
    assert [finding["status"] for finding in findings] == ["ok", "skipped"]
    assert "minutes are over" in findings[1]["figure"]


def test_a_wrong_backend_would_fail(monkeypatch):
    """The control: a backend that forgets one key of each sequence."""
    from forerun.engine.attention.base import Segment
    from forerun.engine.attention.sdpa import Sdpa

    whole = Sdpa.plan

    def shorter(self, segments, block_size, device):
        cut = [Segment(s.start, s.query_len, max(s.query_len, s.context_len - 1), s.block_table) for s in segments]
        return whole(self, cut, block_size, device)

    monkeypatch.setattr(Sdpa, "plan", shorter)
    findings = list(backends.check(Place(torch.device("cpu"), is_rehearsal=True)))
    assert {finding.name.split(",")[0] for finding in findings if finding.status == "failed"} == {"sdpa"}
