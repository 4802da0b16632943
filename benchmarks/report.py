"""How every benchmark reports: what it ran on, and its figures as JSON in benchmarks/results/."""

import json
import os
import platform
import random
import statistics
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from forerun.bench.ratio import paired_ratio

__all__ = ("environment", "paired_median", "paired_ratio", "save")

RESULTS = Path(__file__).parent / "results"
NUM_RESAMPLES = 2000
_PACKAGES = ("torch", "transformers", "grpcio", "numpy")


def environment() -> dict[str, Any]:
    """Hardware, versions and commit."""
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "commit": commit.stdout.strip(),
        "cpu": _cpu(),
        "cores": len(os.sched_getaffinity(0)),
        "python": platform.python_version(),
        **{name: version(name) for name in _PACKAGES},
    }


def save(name: str, figures: dict[str, Any]) -> None:
    """Writes the figures beside what they were measured on."""
    RESULTS.mkdir(exist_ok=True)
    content = {"environment": environment(), "figures": figures}
    (RESULTS / f"{name}.json").write_text(json.dumps(content, indent=2) + "\n")


def paired_median(numerators: Sequence[float], denominators: Sequence[float]) -> dict[str, float]:
    """Median of the ratios run by run, with its bootstrapped 95% interval."""
    ratios = [a / b for a, b in zip(numerators, denominators, strict=True)]
    dice = random.Random(0)
    medians = sorted(statistics.median(dice.choices(ratios, k=len(ratios))) for _ in range(NUM_RESAMPLES))
    low, high = medians[round(0.025 * NUM_RESAMPLES)], medians[round(0.975 * NUM_RESAMPLES) - 1]
    return {
        "median": round(statistics.median(ratios), 3),
        "low": round(low, 3),
        "high": round(high, 3),
        "runs": len(ratios),
    }


def _cpu() -> str:
    with open("/proc/cpuinfo") as file:
        fields = [line.split(":", 1)[1].strip() for line in file if line.startswith(("model name", "flags"))]
    flags = set(fields[1].split()) if len(fields) > 1 else set()
    extensions = sorted(flags & {"avx2", "avx512f", "avx512_bf16", "avx512_vnni", "amx_bf16", "amx_int8"})
    return f"{fields[0]} ({', '.join(extensions)})" if fields else platform.machine()
