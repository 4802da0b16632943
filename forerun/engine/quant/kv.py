"""Keys and values in FP8: e4m3 codes with one scale for each key head of a layer."""

from dataclasses import dataclass

import torch

from forerun.engine.quant.e4m3 import E4M3, stored


@dataclass(frozen=True, slots=True)
class KvScales:
    """keys and values, each `[num_layers, num_kv_heads] float32` on the cache's device."""

    keys: torch.Tensor
    values: torch.Tensor

    def of_layer(self, layer: int) -> tuple[torch.Tensor, torch.Tensor]:
        return self.keys[layer], self.values[layer]


def codes(numbers: torch.Tensor, scale: torch.Tensor | None) -> torch.Tensor:
    """`[rows, KV, D]` → the bytes to store."""
    wide = numbers.float()
    return stored(wide if scale is None else wide / scale[:, None]).view(torch.uint8)


def restored(side: torch.Tensor, scale: torch.Tensor | None, dtype: torch.dtype) -> torch.Tensor:
    """Keys or values of a cache, `[…, KV, D]`, as numbers of `dtype`."""
    if side.dtype != E4M3:
        return side
    wide = side.float()
    return (wide if scale is None else wide * scale[:, None]).to(dtype)
