"""The function that transformers' models call in each layer: it writes the step's keys and values, then attends."""

from dataclasses import dataclass
from typing import Any

import torch
from transformers import AttentionInterface

from forerun.engine.attention.base import AttentionBackend, AttentionOptions
from forerun.engine.kv_cache import KvCache

NAME = "forerun"
"""The attn_implementation of every model loaded here."""


@dataclass(slots=True)
class PagedStep:
    """One step's context, passed to the model as the keyword `paged`. layers_seen: those that attended through here."""

    cache: KvCache
    backend: AttentionBackend
    plan: Any
    slots: torch.Tensor
    layers_seen: set[int]


def register() -> None:
    """Makes NAME known to transformers; call once before a model is loaded."""
    AttentionInterface.register(NAME, paged_attention)


def paged_attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    *,
    paged: PagedStep,
    scaling: float,
    sliding_window: int | None = None,
    softcap: float | None = None,
    s_aux: torch.Tensor | None = None,
    **_: Any,
) -> tuple[torch.Tensor, None]:
    """query `[1, H, rows, D]`, key and value `[1, KV, rows, D]` → output `[1, rows, H, D]`."""
    layer = int(module.layer_idx)  # type: ignore[arg-type]
    paged.layers_seen.add(layer)
    paged.cache.write(layer, paged.slots, key[0].transpose(0, 1), value[0].transpose(0, 1))
    options = AttentionOptions(scaling, sliding_window, softcap, s_aux)
    rows = query[0].transpose(0, 1).contiguous()
    return paged.backend.attend(rows, paged.cache.layers[layer], paged.plan, options)[None], None
