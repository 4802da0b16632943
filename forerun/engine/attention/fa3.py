"""FlashAttention-3 (arXiv 2407.08608) over the paged cache: one kernel for prefill, decode and ragged verification."""

import importlib
from collections.abc import Callable, Sequence
from typing import Any

import torch

from forerun.engine.attention.base import AttentionOptions, LayerCache, Segment
from forerun.engine.attention.ragged import EXACT_QUERY_LEN, RaggedPlan, plan_ragged, window
from forerun.engine.quant.e4m3 import E4M3, stored
from forerun.errors import ConfigError

Kernel = Callable[..., torch.Tensor]
"""`flash_attn_with_kvcache` of flash_attn_interface."""

MODULES = ("flash_attn_3.flash_attn_interface", "flash_attn_interface")
_ANY_NUMBER_OF_SPLITS = 0  # the kernel's own choice, by the longest sequence of the batch


class Fa3:
    """Raises ConfigError where the library is not installed. kernel: in place of the installed one.

    With an FP8 cache queries are e4m3 too. Their scale is 1 for every row: what is scaled by its neighbours
    depends on them.
    """

    name = "fa3"
    num_splits = _ANY_NUMBER_OF_SPLITS
    min_query_len = 1

    def __init__(self, kernel: Kernel | None = None) -> None:
        self._kernel = kernel or load_kernel()

    def plan(self, segments: Sequence[Segment], block_size: int, device: torch.device) -> RaggedPlan:
        return plan_ragged(segments, block_size, device)

    def attend(
        self, query: torch.Tensor, cache: LayerCache, plan: RaggedPlan, options: AttentionOptions
    ) -> torch.Tensor:
        if options.sinks is not None:
            raise ConfigError("FlashAttention-3 has no attention sinks; choose --attention sdpa")
        is_fp8 = cache.keys.dtype == E4M3
        output = self._kernel(
            q=stored(query.float()) if is_fp8 else query.contiguous(),
            k_cache=cache.keys,
            v_cache=cache.values,
            cache_seqlens=plan.cache_seqlens,
            page_table=plan.page_table,
            cu_seqlens_q=plan.cu_seqlens_q,
            max_seqlen_q=max(plan.max_query_len, self.min_query_len),
            softmax_scale=options.scale,
            causal=True,
            window_size=(window(options.sliding_window), -1 if options.sliding_window is None else 0),
            softcap=options.softcap or 0.0,
            num_splits=self.num_splits,
            **(_descales(cache, plan) if is_fp8 else {}),
        )
        return output.to(query.dtype)


class Fa3Exact(Fa3):
    """A row's bits depend on its own sequence alone: keys are never split, and one kernel serves every query length."""

    name = "fa3_exact"
    num_splits = 1
    min_query_len = EXACT_QUERY_LEN


def load_kernel() -> Kernel:
    """Raises ConfigError, saying why, where there is none."""
    reasons = []
    for name in MODULES:
        try:
            kernel: Kernel = importlib.import_module(name).flash_attn_with_kvcache
            return kernel
        except (ImportError, OSError, AttributeError, RuntimeError) as error:
            reasons.append(str(error))
    raise ConfigError(f"FlashAttention-3 cannot be loaded: {'; '.join(reasons)}")


def _descales(cache: LayerCache, plan: RaggedPlan) -> dict[str, Any]:
    """`[S, KV] float32` each; the same for all sequences, so nothing is copied."""
    shape = (plan.cache_seqlens.shape[0], cache.keys.shape[2])
    one = torch.ones((), device=cache.keys.device)
    scales = {"q_descale": one, "k_descale": cache.key_scale, "v_descale": cache.value_scale}
    return {name: (one if scale is None else scale).expand(shape) for name, scale in scales.items()}
