"""Weight-only int8: symmetric, one scale per output channel."""

from typing import Any

import torch
from torch import nn

from forerun.engine.quant import native_linear
from forerun.engine.quant.integer import IntegerLinear
from forerun.engine.quant.native_linear import PackedLinear, replace

LEVELS = 127
_MIN_SCALE = 1e-12  # a channel of zeros


def scales(weight: torch.Tensor) -> torch.Tensor:
    """`[out, in]` → `[out]` of the weight's own dtype.

    Rounded to it before weights are rounded to a scale, so that rounding the scale costs nothing.
    """
    return (weight.float().abs().amax(dim=1) / LEVELS).clamp_min(_MIN_SCALE).to(weight.dtype)


def quantized(weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """`[out, in]` → int8 of the same shape and scales `[out]`."""
    scale = scales(weight)
    levels = (weight.float() / scale.float()[:, None]).round().clamp(-LEVELS, LEVELS)
    return levels.to(torch.int8), scale


def plain(linear: nn.Linear) -> IntegerLinear:
    """In torch's own operators."""
    return IntegerLinear(*quantized(linear.weight.detach()), linear.bias)


def native(linear: nn.Linear) -> PackedLinear:
    """On our kernel, which must take it."""
    weight, scale = quantized(linear.weight.detach())
    return PackedLinear(native_linear.pack(weight), scale, linear.bias)


def made(linear: nn.Linear, is_native: bool) -> nn.Module:
    """On our kernel or without it."""
    return native(linear) if is_native else plain(linear)


def quantize(module: Any) -> None:
    """Replaces every linear layer of `module`, the head included; the embedding stays."""
    replace(module, made)
