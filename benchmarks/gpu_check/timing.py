"""How long the device takes, by its own clock."""

import statistics
import time
from collections.abc import Callable

import torch

from benchmarks.gpu_check.check import Place

BURST = 5
"""Calls between two events: the host prepares one while the device is at another."""


def seconds(call: Callable[[], object], place: Place, repeats: int = 7, warm_ups: int = 3) -> float:
    """Median of `repeats` measurements of a call; on a GPU of calls back to back, which hides what the host does."""
    repeats, warm_ups = (2, 1) if place.is_rehearsal else (repeats, warm_ups)
    for _ in range(warm_ups):
        call()
    return statistics.median(_on_gpu(call) if place.on_gpu else _on_host(call) for _ in range(repeats))


def _on_gpu(call: Callable[[], object]) -> float:
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    for _ in range(BURST):
        call()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) / 1e3 / BURST


def _on_host(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start
