"""Weight-only int8: symmetric, one scale per output channel, activations as they are.

On x86-64 with a C++ compiler a kernel of our own multiplies (native_linear). Elsewhere the compiler turns
`linear(x, weight.to(x.dtype)) * scale` into one kernel that reads int8; uncompiled it is the same arithmetic with the
weights widened each time.
"""

from typing import Any

import torch
from torch import nn
from torch.nn import functional

from forerun.engine.quant import native_linear

LEVELS = 127
_MIN_SCALE = 1e-12  # a channel of zeros


class Int8Linear(nn.Module):
    """weight `[out, in] int8`, scale `[out]` of the activations' dtype, bias `[out]` or None."""

    weight: torch.Tensor
    scale: torch.Tensor
    bias: torch.Tensor | None

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        weight, scale = quantized(linear.weight.detach())
        self.register_buffer("weight", weight)
        self.register_buffer("scale", scale)
        self.register_buffer("bias", None if linear.bias is None else linear.bias.detach())

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """rows `[…, in]` → `[…, out]`."""
        product = functional.linear(rows, self.weight.to(rows.dtype)) * self.scale
        return product if self.bias is None else product + self.bias


class NativeInt8Linear(nn.Module):
    """packed: see native_linear.pack. columns `[2, out] float32`: scales and biases."""

    packed: torch.Tensor
    columns: torch.Tensor

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        weight, scale = quantized(linear.weight.detach())
        bias = torch.zeros_like(scale) if linear.bias is None else linear.bias.detach()
        self.register_buffer("packed", native_linear.pack(weight))
        self.register_buffer("columns", torch.stack([scale, bias]).float())

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """rows `[…, in] bf16` → `[…, out]`."""
        product: torch.Tensor = torch.ops.forerun.int8_linear(rows, self.packed, self.columns)
        return product

    @staticmethod
    def takes(linear: nn.Linear) -> bool:
        weight = linear.weight
        return weight.dtype == torch.bfloat16 and weight.is_cpu and linear.in_features <= native_linear.MAX_DEPTH


def quantized(weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """`[out, in]` → int8 of the same shape and scales `[out]`.

    A scale is rounded to the weight's own dtype first and the weights to it, so that rounding the scale costs nothing.
    """
    wide = weight.float()
    scale = (wide.abs().amax(dim=1) / LEVELS).clamp_min(_MIN_SCALE).to(weight.dtype)
    levels = (wide / scale.float()[:, None]).round().clamp(-LEVELS, LEVELS)
    return levels.to(torch.int8), scale


def quantize(module: Any) -> None:
    """Replaces every linear layer of `module`, the head included; the embedding stays."""
    is_native = native_linear.serves()
    for name, child in list(module.named_modules()):
        if isinstance(child, nn.Linear):
            parent, _, own_name = name.rpartition(".")
            kind = NativeInt8Linear if is_native and NativeInt8Linear.takes(child) else Int8Linear
            setattr(module.get_submodule(parent), own_name, kind(child))
