"""`python -m benchmarks.gpu_check [--rehearse] [--only NAME,…] [--json FILE]`: what only a GPU can show, in minutes.

Takes the environment as it is: torch, transformers, and FlashAttention where it is installed; no network, no service.
Checks that cannot run are skipped and say why. Ends with 1 where one failed, else with 0, also where there is no GPU.
--rehearse runs tiny shapes on the CPU.
"""

import argparse
import gc
import json
import logging
import math
import platform
import subprocess
import sys
import time
import traceback
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from benchmarks.gpu_check.check import FAILED, SKIPPED, Finding, Place, Skip

CHECKS = ("backends", "exact", "fp8", "flops", "roofline", "pair")
_PACKAGES = ("transformers", "flash-attn-3", "tokenspeed-fa3", "flash-attn", "triton", "numpy")
BUDGET_S = 450.0
"""All of it is to end within eight minutes; a check that has begun a figure finishes it."""

RESULT = Path(__file__).parent.parent / "results" / "gpu_check.json"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="gpu_check", description=__doc__)
    parser.add_argument("--rehearse", action="store_true")
    parser.add_argument("--only", default=",".join(CHECKS))
    parser.add_argument("--json", type=Path, default=None)
    options = parser.parse_args(arguments)
    if not (torch.cuda.is_available() or options.rehearse):
        print(f"gpu-check: torch {torch.__version__} finds no CUDA device, so nothing was checked (see --rehearse)")
        return 0
    logging.basicConfig(level=logging.WARNING, format="  (%(message)s)", stream=sys.stdout)
    place = Place(torch.device("cpu" if options.rehearse else "cuda"), options.rehearse)
    found = environment()
    print(json.dumps(found))
    deadline_s = time.monotonic() + BUDGET_S
    results = {name: run(name, place, deadline_s) for name in options.only.split(",")}
    path = options.json or (None if options.rehearse else RESULT)
    if path is not None:
        path.write_text(json.dumps({"environment": found, "findings": results}, indent=2) + "\n")
    failed = [name for name, findings in results.items() if any(each["status"] == FAILED for each in findings)]
    print(f"\nfailed: {', '.join(failed)}" if failed else "\nnothing failed")
    return 1 if failed else 0


def run(name: str, place: Place, deadline_s: float = math.inf) -> list[dict[str, Any]]:
    """One check's findings, printed as they come; whatever it raises is a finding too.

    deadline_s: on the monotonic clock; what was not found by then is left out.
    """
    print(f"\n== {name}", flush=True)
    start, findings = time.monotonic(), list[Finding]()
    try:
        for finding in import_module(f"benchmarks.gpu_check.{name}").check(place):
            findings.append(finding)
            _say(finding)
            if time.monotonic() > deadline_s:
                raise Skip(f"the rest, as {BUDGET_S / 60:.1f} minutes are over")
    except Skip as reason:
        findings.append(Finding(name, SKIPPED, str(reason)))
        _say(findings[-1])
    except ModuleNotFoundError as error:
        is_ours = (error.name or "").startswith(("benchmarks", "forerun"))
        findings.append(Finding(name, FAILED if is_ours else SKIPPED, str(error)))
        _say(findings[-1])
    except Exception as error:
        traceback.print_exc(file=sys.stdout)
        findings.append(Finding(name, FAILED, f"{type(error).__name__}: {error}"))
        _say(findings[-1])
    print(f"  {time.monotonic() - start:.0f} s", flush=True)
    gc.collect()
    if place.on_gpu:
        torch.cuda.empty_cache()
    return [{field: getattr(finding, field) for field in Finding.__slots__} for finding in findings]


def environment() -> dict[str, Any]:
    """What was found, without asking for anything that need not be there."""
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    facts: dict[str, Any] = {
        "commit": commit.stdout.strip(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "packages": {name: _version(name) for name in _PACKAGES if _version(name)},
    }
    if torch.cuda.is_available():
        facts["gpu"] = torch.cuda.get_device_name()
        facts["compute capability"] = ".".join(map(str, torch.cuda.get_device_capability()))
    return facts


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _say(finding: Finding) -> None:
    print(f"  {finding.status:8} {finding.name}: {finding.figure}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
