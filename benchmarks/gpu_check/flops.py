"""FLOP/s of attention at the FlashAttention-3 paper's shapes (arXiv 2407.08608, 4.1): 16k tokens, width 2048."""

from collections.abc import Callable, Iterator

import torch
from torch.nn import functional

from benchmarks.gpu_check.check import MEASURED, SKIPPED, Finding, Place, Skip
from benchmarks.gpu_check.timing import seconds
from forerun.engine.attention import fa3
from forerun.engine.quant.e4m3 import E4M3

WIDTH, NUM_TOKENS = 2048, 16384
LENGTHS = (512, 1024, 2048, 4096, 8192, 16384)
HEAD_DIMS = (64, 128, 256)

Attend = Callable[[torch.Tensor, torch.Tensor, torch.Tensor, bool], object]
"""query, key and value `[B, L, H, D]`, whether causal."""


def check(place: Place) -> Iterator[Finding]:
    """A line for each library, size of head and mask: TFLOP/s at each length."""
    if not place.on_gpu and not place.is_rehearsal:
        raise Skip("it is the GPU that is measured")
    for name, attend in {"SDPA fp16": _sdpa, "FA2 fp16": _fa2(), "FA3 fp16": _fa3(), "FA3 fp8": _fa3()}.items():
        for head_dim in HEAD_DIMS:
            for causal in (False, True):
                title = f"{name}, heads of {head_dim}{', causal' if causal else ''}"
                if isinstance(attend, str):
                    yield Finding(title, SKIPPED, attend)
                else:
                    yield _line(title, attend, head_dim, causal, place)


def _line(title: str, attend: Attend, head_dim: int, causal: bool, place: Place) -> Finding:
    dtype = E4M3 if "fp8" in title else torch.float16 if place.on_gpu else torch.float32
    rates: list[tuple[int, float]] = []
    for length in LENGTHS[:1] if place.is_rehearsal else LENGTHS:
        tokens, width = (length, 256) if place.is_rehearsal else (NUM_TOKENS, WIDTH)
        size = (tokens // length, length, width // head_dim, head_dim)
        query, key, value = (torch.randn(size, device=place.device).to(dtype) for _ in range(3))
        try:
            taken_s = seconds(lambda: attend(query, key, value, causal), place)  # noqa: B023
        except RuntimeError as error:
            return Finding(title, SKIPPED, str(error).splitlines()[0])
        flop = 4 * length**2 * width * size[0] / (2 if causal else 1)
        rates.append((length, flop / taken_s / 1e12))
    figure = ", ".join(f"{length}: {rate:.0f}" for length, rate in rates)
    return Finding(title, MEASURED, f"{figure} TFLOP/s", max(rate for _, rate in rates))


def _sdpa(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, causal: bool) -> object:
    query, key, value = (side.transpose(1, 2) for side in (query, key, value))
    return functional.scaled_dot_product_attention(query, key, value, is_causal=causal)


def _fa2() -> Attend | str:
    try:
        from flash_attn import flash_attn_func
    except ImportError as error:
        return str(error)
    return lambda query, key, value, causal: flash_attn_func(query, key, value, causal=causal)


def _fa3() -> Attend | str:
    for module in fa3.MODULES:
        try:
            attend = __import__(module, fromlist=["flash_attn_func"]).flash_attn_func
        except (ImportError, OSError, AttributeError) as error:
            reason = str(error)
        else:
            return lambda query, key, value, causal: attend(query, key, value, causal=causal)
    return reason
