"""The function that transformers' models call in each layer, between their own code and the engine's operator."""

from typing import Any

import torch
from transformers import AttentionInterface

from forerun.engine import paged_op
from forerun.errors import ConfigError

NAME = "forerun"
"""The attn_implementation of every model loaded here."""

_HARMLESS = {"dropout", "position_ids", "cache", "past_key_values", "use_cache", "output_attentions", "is_causal"}


def register() -> None:
    """Makes NAME known to transformers; call once before a model is loaded."""
    paged_op.register()
    AttentionInterface.register(NAME, paged_attention)


def paged_attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    *,
    paged: torch.Tensor,
    scaling: float,
    sliding_window: int | None = None,
    softcap: float | None = None,
    s_aux: torch.Tensor | None = None,
    **others: Any,
) -> tuple[torch.Tensor, None]:
    """query `[1, H, rows, D]`, key and value `[1, KV, rows, D]` → output `[1, rows, H, D]`. paged: a step's handle.

    Raises ConfigError, naming the layer, for anything that would make it more than causal attention.
    """
    layer = int(module.layer_idx)  # type: ignore[arg-type]
    _check_causal(module, layer, {**others, "attention_mask": attention_mask})
    window = sliding_window or _layer_window(module, layer) or 0
    attend = torch.ops.forerun.paged_attention
    return attend(query, key, value, paged, layer, scaling, window, softcap or 0.0, s_aux), None


def _check_causal(module: torch.nn.Module, layer: int, asked: dict[str, Any]) -> None:
    if asked.get("is_causal") is False or getattr(module, "is_causal", True) is False:
        raise ConfigError(f"layer {layer} looks at later tokens; only causal attention can be served")
    for name, value in asked.items():
        if value is not None and name not in _HARMLESS and not name.startswith("output_"):
            raise ConfigError(f"layer {layer} asks its attention for {name}, which is not served")


def _layer_window(module: torch.nn.Module, layer: int) -> int | None:
    """The window of a sliding layer whose module states it by mask only."""
    config = getattr(module, "config", None)
    kinds = getattr(config, "layer_types", None)
    return getattr(config, "sliding_window", None) if kinds and kinds[layer] == "sliding_attention" else None
