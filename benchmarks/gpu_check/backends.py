"""Each attention backend against float32 SDPA over the same numbers, on every kind of step."""

from collections.abc import Iterator
from dataclasses import replace

import torch

from benchmarks.gpu_check.batches import Heads, RandomBatch, Shapes, random_batch
from benchmarks.gpu_check.check import FAILED, SKIPPED, Finding, Place, judged
from forerun.engine import attention
from forerun.engine.attention.base import LayerCache
from forerun.engine.quant.e4m3 import stored
from forerun.errors import ConfigError

BACKENDS = ("fa3", "fa3_exact", "varlen", "varlen_exact", "sdpa", "paged_rowwise")
CPU_BACKENDS = ("paged_cpu", "sdpa", "paged_rowwise")
TOLERANCE = 2e-2
"""bf16 outputs of order 1: a few roundings to 8 bits of mantissa."""

FP8_TOLERANCE = 0.12
"""Weights are rounded to 4 bits of mantissa on their way to the values, and average out over the keys."""

STEPS: dict[str, Shapes] = {
    "decode": [(1, 700), (1, 1), (1, 2049), (1, 64)],
    "verify": [(5, 1030), (9, 9), (3, 515), (1, 77)],
    "prefill": [(513, 513), (130, 2000)],
    "ragged": [(1, 300), (257, 257), (9, 1200), (1, 33)],
}
TINY: dict[str, Shapes] = {"ragged": [(1, 30), (5, 21), (17, 17), (1, 1)]}
HEADS = (Heads(32, 8, 128), Heads(9, 3, 64))


def check(place: Place) -> Iterator[Finding]:
    """A finding for each backend and size of head; FP8 keys and values for those that read them."""
    steps, heads = (TINY, (Heads(4, 2, 16),)) if place.is_rehearsal else (STEPS, HEADS)
    for name in BACKENDS if place.on_gpu else CPU_BACKENDS:
        for size in heads:
            yield _compare(name, size, steps, place, fp8=False)
        if not name.startswith("varlen"):
            yield _compare(name, heads[0], steps, place, fp8=True)


def _compare(name: str, heads: Heads, steps: dict[str, Shapes], place: Place, fp8: bool) -> Finding:
    size = f"{heads.num_heads}/{heads.num_kv_heads} heads of {heads.head_dim}"
    title = f"{name}, {'fp8' if fp8 else 'bf16'} cache, {size}"
    worst = 0.0
    for shapes in steps.values():
        for block_size in (16, 128):
            batch = random_batch(shapes, heads, block_size, place.device)
            batch = _in_fp8(batch) if fp8 else batch
            try:
                ours = batch.attend(attention.create(name), heads.options)
            except ConfigError as error:
                return Finding(title, SKIPPED, str(error))
            except RuntimeError as error:
                return Finding(title, FAILED, str(error).splitlines()[0])
            expected = batch.in_float32().attend(attention.create("paged_cpu"), heads.options)
            off = (ours.float() - expected).abs().nan_to_num(nan=float("inf"))
            worst = max(worst, float(off.max()))
    limit = FP8_TOLERANCE if fp8 else TOLERANCE
    return judged(title, worst <= limit, f"off by {worst:.2g}, {limit:g} allowed", worst)


def _in_fp8(batch: RandomBatch) -> RandomBatch:
    """Keys, values and queries as a cache in FP8 has them, with scales that differ by head and side."""
    keys, values = batch.cache.keys.float(), batch.cache.values.float()
    scales = 0.01 * (1 + torch.arange(keys.shape[2], device=keys.device))
    cache = LayerCache(
        stored(keys / scales[:, None]), stored(values / (2 * scales)[:, None]), key_scale=scales, value_scale=2 * scales
    )
    return replace(batch, query=stored(batch.query.float()).to(batch.query.dtype), cache=cache)
