"""A verify pass of an 8B-shaped FP8 model as a fraction of what the memory allows: its weights and keys read once."""

import time
from collections.abc import Iterator

import torch

from benchmarks.gpu_check.check import MEASURED, Finding, Place
from benchmarks.gpu_check.timing import seconds
from benchmarks.gpu_check.world import RandomTarget, fp8_target
from forerun.engine.batch import flatten
from forerun.engine.scheduler import Slice

DATASHEET = {"H200": 4.8e12, "H100 NVL": 3.9e12, "H100 PCIe": 2.0e12, "H100": 3.35e12}
"""Bytes per second."""

NUM_DRAFTED = (0, 4, 8)
BATCHES = (1, 8, 64)
CONTEXT_LEN = 1024


def check(place: Place) -> Iterator[Finding]:
    """The memory's own speed, then every K and batch: on the device, and with all that the host does."""
    context_len = 40 if place.is_rehearsal else CONTEXT_LEN
    peak, named = _bandwidth(place)
    yield Finding("memory", MEASURED, named, peak / 1e12)
    target = fp8_target(place)
    for batch in BATCHES[:2] if place.is_rehearsal else BATCHES:
        for num_drafted in NUM_DRAFTED:
            yield _verify(target, batch, num_drafted, context_len, peak, place)


def _verify(target: RandomTarget, batch: int, num_drafted: int, context_len: int, peak: float, place: Place) -> Finding:
    sequences = [target.pretend(context_len, num_drafted) for _ in range(batch)]
    slices = [Slice(sequence, sequence.num_due) for sequence in sequences]
    flat = flatten(slices, block_size=16)
    device_s = seconds(lambda: target.runner.compute(flat), place)
    start = time.perf_counter()
    for _ in range(5):
        target.runner.run(slices)
    whole_s = (time.perf_counter() - start) / 5
    for sequence in sequences:
        target.close(sequence)
    read = target.bytes_per_step() + batch * (context_len + num_drafted + 1) * target.kv_shape.bytes_per_token
    fraction = read / peak / device_s
    figure = f"{1e3 * device_s:.2f} ms, {1e3 * whole_s:.2f} with the host, {100 * fraction:.0f}% of the roofline"
    return Finding(f"{target.backend}: batch {batch}, K = {num_drafted}", MEASURED, figure, fraction)


def _bandwidth(place: Place) -> tuple[float, str]:
    """Bytes per second that the roofline is made of, and where they are from."""
    size = 1 << 20 if place.is_rehearsal else 1 << 31
    source = torch.empty(size, dtype=torch.uint8, device=place.device)
    copied = torch.empty_like(source)
    measured = 2 * size / seconds(lambda: copied.copy_(source), place)
    name = torch.cuda.get_device_name(place.device) if place.on_gpu else "this CPU"
    known = next((speed for part, speed in DATASHEET.items() if part in name), None)
    figure = f"{name}: a copy moves {measured / 1e12:.2f} TB/s"
    return (measured, figure) if known is None else (known, f"{figure}, its datasheet says {known / 1e12:.2f}")
