"""Which attention backends may serve a step's shapes here, best first."""

import torch

from forerun.engine.attention import paged_native
from forerun.engine.quant.e4m3 import E4M3

AUTO = "auto"
EXACT = {"fa3": "fa3_exact", "varlen": "varlen_exact", "paged_native": "paged_native"}
"""What a backend becomes where every bit counts; any other becomes paged_rowwise, which runs anywhere."""


def candidates(wanted: str, device: torch.device, head_dim: int, kv_dtype: torch.dtype, exact: bool) -> list[str]:
    """Names to try in order; the first whose kernel runs here serves. wanted: a name, or `auto`.

    FlashAttention-3, torch's varlen_attn, gathered blocks; on a CPU the compiled kernel, else gathered blocks.
    """
    names = [wanted] if wanted != AUTO else _best_first(device, head_dim, kv_dtype)
    if exact:
        names = [EXACT.get(name, name if name in EXACT.values() else "paged_rowwise") for name in names]
    return names


def _best_first(device: torch.device, head_dim: int, kv_dtype: torch.dtype) -> list[str]:
    if device.type == "cuda":
        return ["fa3", "varlen", "sdpa"]
    if kv_dtype != E4M3 and paged_native.serves(head_dim):
        return ["paged_native"]
    return ["paged_cpu"]
