"""The paged cache: keys and values of every layer in blocks, and the place of every token in them."""

import math
from dataclasses import dataclass

import numpy as np
import torch
from transformers import PretrainedConfig

from forerun.engine.attention.base import LayerCache


@dataclass(frozen=True, slots=True)
class KvShape:
    """What one model needs to remember per token."""

    num_layers: int
    num_kv_heads: int
    head_dim: int
    dtype: torch.dtype

    @classmethod
    def of(cls, config: PretrainedConfig, dtype: torch.dtype) -> "KvShape":
        heads = config.num_attention_heads
        kv_heads = getattr(config, "num_key_value_heads", None) or heads
        head_dim = getattr(config, "head_dim", None) or config.hidden_size // heads
        return cls(config.num_hidden_layers, kv_heads, head_dim, dtype)

    @property
    def bytes_per_token(self) -> int:
        return 2 * self.num_layers * self.num_kv_heads * self.head_dim * self.dtype.itemsize


class KvCache:
    """One block more than the pool knows: padding rows write there and nobody reads it."""

    def __init__(self, shape: KvShape, num_blocks: int, block_size: int, device: torch.device) -> None:
        self.block_size = block_size
        self.padding_slot = num_blocks * block_size
        size = (num_blocks + 1, block_size, shape.num_kv_heads, shape.head_dim)
        self.layers = [
            LayerCache(*(_zeros(size, shape.dtype, device) for _ in range(2))) for _ in range(shape.num_layers)
        ]

    def write(self, layer: int, slots: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> None:
        """Stores rows `[num_rows, KV, D]` at slots `[num_rows]`, slot = block * block_size + offset."""
        cache = self.layers[layer]
        cache.keys.flatten(0, 1).index_copy_(0, slots, keys)
        cache.values.flatten(0, 1).index_copy_(0, slots, values)


def _zeros(size: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """Zeros (a masked key must not be NaN); on CPU from numpy, whose pages take memory only when they are written."""
    if device.type != "cpu":
        return torch.zeros(size, dtype=dtype, device=device)
    return torch.from_numpy(np.zeros(math.prod(size) * dtype.itemsize, np.uint8)).view(dtype).view(size)
