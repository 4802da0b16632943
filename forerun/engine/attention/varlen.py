"""torch's own FlashAttention for ragged batches: what a GPU without FlashAttention-3 attends with.

torch's built-in kernel reads packed keys, so they are gathered first; where a newer one was activated
(torch.nn.attention.activate_flash_attention_impl) and torch is 2.12 or later, it reads the block table itself.
"""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn import attention as torch_attention

from forerun.engine.attention.base import AttentionOptions, LayerCache, Segment
from forerun.engine.attention.ragged import EXACT_QUERY_LEN, RaggedPlan, plan_ragged, window
from forerun.engine.quant.e4m3 import E4M3
from forerun.engine.quant.kv import restored
from forerun.errors import ConfigError

Kernel = Callable[..., torch.Tensor]
"""`torch.nn.attention.varlen.varlen_attn`."""


@dataclass(frozen=True, slots=True)
class VarlenPlan:
    """cu_seqlens_k `[S + 1] int32` and slots `[num_keys] int64` of packed keys; None where the kernel reads blocks."""

    ragged: RaggedPlan
    packed: tuple[torch.Tensor, torch.Tensor] | None


class Varlen:
    """Raises ConfigError where torch has no such kernel. kernel: in place of torch's, is_paged with it."""

    name = "varlen"
    num_splits: int | None = None
    min_query_len = 1

    def __init__(self, kernel: Kernel | None = None, is_paged: bool | None = None) -> None:
        self._kernel = kernel or load_kernel()
        self._parameters = set(inspect.signature(self._kernel).parameters)
        self._is_paged = _reads_blocks(self._parameters) if is_paged is None else is_paged

    def plan(self, segments: Sequence[Segment], block_size: int, device: torch.device) -> VarlenPlan:
        ragged = plan_ragged(segments, block_size, device)
        return VarlenPlan(ragged, None if self._is_paged else _packed(ragged, block_size))

    def attend(
        self, query: torch.Tensor, cache: LayerCache, plan: VarlenPlan, options: AttentionOptions
    ) -> torch.Tensor:
        if options.sinks is not None or options.softcap is not None:
            raise ConfigError("torch's varlen_attn has neither softcap nor sinks; choose --attention sdpa")
        ragged = plan.ragged
        keys, values, cu_seqlens_k, paging = self._keys(cache, plan, query.dtype)
        optional = {"enable_gqa": query.shape[1] != cache.keys.shape[2], "num_splits": self.num_splits}
        return self._kernel(
            query.contiguous(),
            keys,
            values,
            ragged.cu_seqlens_q,
            cu_seqlens_k,
            max(ragged.max_query_len, self.min_query_len),
            ragged.max_context_len,
            scale=options.scale,
            window_size=(window(options.sliding_window), 0),
            **paging,
            **{name: value for name, value in optional.items() if name in self._parameters},
        )

    def _keys(
        self, cache: LayerCache, plan: VarlenPlan, dtype: torch.dtype
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None, dict[str, Any]]:
        if plan.packed is None:
            if cache.keys.dtype == E4M3:
                raise ConfigError("torch's varlen_attn reads no FP8 blocks; choose --attention sdpa")
            paging = {"seqused_k": plan.ragged.cache_seqlens, "block_table": plan.ragged.page_table}
            return cache.keys, cache.values, None, paging
        cu_seqlens_k, slots = plan.packed
        keys = restored(cache.keys.flatten(0, 1).index_select(0, slots), cache.key_scale, dtype)
        values = restored(cache.values.flatten(0, 1).index_select(0, slots), cache.value_scale, dtype)
        return keys, values, cu_seqlens_k, {}


class VarlenExact(Varlen):
    """A row's bits depend on its own sequence alone: keys are never split, and one kernel serves every query length."""

    name = "varlen_exact"
    num_splits = 1
    min_query_len = EXACT_QUERY_LEN


def load_kernel() -> Kernel:
    """Raises ConfigError where torch has none, or one that takes no scale."""
    try:
        from torch.nn.attention.varlen import varlen_attn
    except ImportError as error:
        raise ConfigError(f"torch {torch.__version__} has no varlen_attn") from error
    kernel: Any = varlen_attn
    if not {"scale", "window_size"} <= set(inspect.signature(kernel).parameters):
        raise ConfigError(f"varlen_attn of torch {torch.__version__} takes neither scale nor window")
    found: Kernel = kernel
    return found


def _reads_blocks(parameters: set[str]) -> bool:
    current = getattr(torch_attention, "current_flash_attention_impl", lambda: None)
    return "block_table" in parameters and current() is not None


def _packed(plan: RaggedPlan, block_size: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Where each sequence's keys lie in the cache, one sequence after another. Nothing waits for the device."""
    lens, device = plan.cache_seqlens, plan.cache_seqlens.device
    cu_seqlens_k = torch.nn.functional.pad(lens.cumsum(0, dtype=torch.int32), (1, 0))
    which = torch.arange(len(lens), device=device)
    owner = torch.repeat_interleave(which, lens, output_size=plan.num_keys)
    place = torch.arange(plan.num_keys, device=device) - cu_seqlens_k[owner]
    blocks = plan.page_table[owner, place // block_size].long()
    return cu_seqlens_k, blocks * block_size + place % block_size
