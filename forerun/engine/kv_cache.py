"""The paged cache: keys and values of every layer in blocks, and the place of every token in them."""

import math
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from transformers import PretrainedConfig

from forerun.engine.attention.base import LayerCache
from forerun.engine.quant.e4m3 import E4M3
from forerun.engine.quant.kv import KvScales, codes
from forerun.engine.upload import upload


@dataclass(frozen=True, slots=True)
class KvShape:
    """What one model needs to remember per token."""

    num_layers: int
    num_kv_heads: int
    head_dim: int
    dtype: torch.dtype

    @classmethod
    def of(cls, config: PretrainedConfig, dtype: torch.dtype) -> "KvShape":
        config = config.get_text_config(decoder=True)
        heads = config.num_attention_heads
        kv_heads = getattr(config, "num_key_value_heads", None) or heads
        head_dim = getattr(config, "head_dim", None) or config.hidden_size // heads
        return cls(config.num_hidden_layers, kv_heads, head_dim, dtype)

    def share(self, num_ranks: int) -> "KvShape":
        """What each of so many ranks remembers of it."""
        return replace(self, num_kv_heads=self.num_kv_heads // num_ranks)

    @property
    def bytes_per_token(self) -> int:
        return 2 * self.num_layers * self.num_kv_heads * self.head_dim * self.dtype.itemsize


class KvCache:
    """One block more than the pool knows: padding rows write there and nobody reads it.

    Every number in a block that a sequence holds is finite or its own: blocks are cleared as they are entered,
    because a masked key still takes part in sums, and 0 * NaN is NaN.
    scales: of a cache in FP8, where they are not 1. addresses: on a CPU, where each layer's keys begin, and its values.
    """

    def __init__(
        self,
        shape: KvShape,
        num_blocks: int,
        block_size: int,
        device: torch.device,
        scales: KvScales | None = None,
    ) -> None:
        self.block_size = block_size
        self.padding_slot = num_blocks * block_size
        size = (shape.num_layers, 2, num_blocks + 1, block_size, shape.num_kv_heads, shape.head_dim)
        storage = _zeros(size, shape.dtype, device)
        layers = range(shape.num_layers)
        self.layers = [LayerCache(*storage[i], *(scales.of_layer(i) if scales else ())) for i in layers]
        self._is_fp8 = shape.dtype == E4M3
        # Copies by index know no FP8: its bytes are moved.
        self._storage = storage.view(torch.uint8) if self._is_fp8 else storage
        self.addresses = _addresses(self.layers) if device.type == "cpu" else None
        self._slots = [(keys.flatten(0, 1), values.flatten(0, 1)) for keys, values in self._storage]

    def clear(self, blocks: Sequence[int]) -> None:
        """Zeros these blocks in all layers."""
        if blocks:
            self._storage[:, :, upload(blocks, torch.long, self._storage.device)] = 0

    def copy(self, sources: Sequence[int], copies: Sequence[int]) -> None:
        """Copies whole blocks in all layers."""
        there, here = (upload(blocks, torch.long, self._storage.device) for blocks in (copies, sources))
        self._storage[:, :, there] = self._storage[:, :, here]

    def write(self, layer: int, slots: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> None:
        """Stores rows `[num_rows, KV, D]` at slots `[num_rows]`, slot = block * block_size + offset."""
        key_slots, value_slots = self._slots[layer]
        if self._is_fp8:
            cache = self.layers[layer]
            keys, values = codes(keys, cache.key_scale), codes(values, cache.value_scale)
        key_slots.index_copy_(0, slots, keys)
        value_slots.index_copy_(0, slots, values)


def _zeros(size: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """On CPU from numpy, whose pages take memory only when they are written."""
    if device.type != "cpu":
        return torch.zeros(size, dtype=dtype, device=device)
    return torch.from_numpy(np.zeros(math.prod(size) * dtype.itemsize, np.uint8)).view(dtype).view(size)


def _addresses(layers: Sequence[LayerCache]) -> tuple["array[int]", "array[int]"]:
    keys, values = (array("Q", [side.data_ptr() for side in sides]) for sides in zip(*map(_sides, layers), strict=True))
    return keys, values


def _sides(cache: LayerCache) -> tuple[torch.Tensor, torch.Tensor]:
    return cache.keys, cache.values
