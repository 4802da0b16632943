"""What was measured, as JSON."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from forerun.bench.config import BenchConfig
from forerun.bench.course import OFF, ON, Load
from forerun.bench.figures import figures, on_over_off


def as_json(config: BenchConfig, model: str, loads: Sequence[Load]) -> dict[str, Any]:
    """Settings, without the key, and the figures of each load by mode."""
    settings = {name: value for name, value in asdict(config).items() if name not in ("api_key", "json")}
    return {"settings": {**settings, "model": model}, "loads": [_load(load) for load in loads]}


def failures(loads: Sequence[Load]) -> Counter[str]:
    """How often each failure came."""
    windows = [window for load in loads for of_mode in load.windows.values() for window in of_mode]
    return Counter(failure for window in windows for failure in window.failures)


def _load(load: Load) -> dict[str, Any]:
    return {
        "concurrency": load.num_at_once,
        "speculation": {mode: asdict(figures(windows)) for mode, windows in load.windows.items()},
        "on_over_off": on_over_off(load.windows.get(ON, ()), load.windows.get(OFF, ())),
        "failures": dict(failures([load])),
    }
