"""What an attention backend is: it plans a ragged batch once a step and attends once a layer."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch


@dataclass(frozen=True, slots=True)
class Segment:
    """One sequence's rows in a flattened batch.

    Rows [start, start + query_len) of the batch are its positions [context_len - query_len, context_len);
    causal attention is aligned to the bottom right. block_table covers context_len.
    """

    start: int
    query_len: int
    context_len: int
    block_table: Sequence[int]


@dataclass(frozen=True, slots=True)
class LayerCache:
    """Keys and values of one layer, each `[num_blocks, block_size, num_kv_heads, head_dim]`.

    Their scales, `[num_kv_heads] float32`, are what numbers in FP8 are to be multiplied by; None is 1.
    """

    keys: torch.Tensor
    values: torch.Tensor
    key_scale: torch.Tensor | None = None
    value_scale: torch.Tensor | None = None


@dataclass(frozen=True, slots=True)
class AttentionOptions:
    """What a layer asks for beside plain causal attention; None and 0 are off. sinks: `[num_heads]`."""

    scale: float
    sliding_window: int | None = None
    softcap: float | None = None
    sinks: torch.Tensor | None = None


class AttentionBackend(Protocol):
    """Attention over a paged cache that already holds the keys and values of the step's own rows."""

    name: str

    def plan(self, segments: Sequence[Segment], block_size: int, device: torch.device) -> Any:
        """Index tensors for one step, made once and handed to every layer."""
        ...

    def attend(self, query: torch.Tensor, cache: LayerCache, plan: Any, options: AttentionOptions) -> torch.Tensor:
        """query `[num_rows, num_heads, head_dim]` → output of the same shape and dtype."""
        ...
