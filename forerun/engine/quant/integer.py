"""Linear layers whose weights are int8 when they are multiplied; activations are as they are.

On x86-64 with a C++ compiler a kernel of our own multiplies (native_linear). Elsewhere the compiler turns
`linear(x, weight.to(x.dtype)) * scale` into one kernel that reads int8; uncompiled it is the same arithmetic with the
weights widened each time.
"""

import torch
from torch import nn
from torch.nn import functional


class IntegerLinear(nn.Module):
    """weight `[out, in] int8`, scale `[out]` of the activations' dtype, bias `[out]` or None."""

    weight: torch.Tensor
    scale: torch.Tensor
    bias: torch.Tensor | None

    def __init__(self, weight: torch.Tensor, scale: torch.Tensor, bias: torch.Tensor | None) -> None:
        super().__init__()
        self.register_buffer("weight", weight)
        self.register_buffer("scale", scale)
        self.register_buffer("bias", None if bias is None else bias.detach())

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """rows `[…, in]` → `[…, out]`."""
        product = functional.linear(rows, self.weight.to(rows.dtype)) * self.scale
        return product if self.bias is None else product + self.bias
