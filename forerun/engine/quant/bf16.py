"""Products in bf16 by our kernel, where inductor's cost by the row: CPUs that multiply bf16 without a matrix unit."""

from typing import Any

import torch
from torch import nn

from forerun.engine import native_code
from forerun.engine.quant import native_linear
from forerun.engine.quant.native_linear import PackedLinear, replace

_MULTIPLIES, _IN_A_MATRIX_UNIT = "avx512_bf16", "amx_bf16"  # as Linux lists them


def pays() -> bool:
    """Whether this machine is one of those, and can compile the kernel."""
    flags = native_code.cpu_flags().split()
    return _MULTIPLIES in flags and _IN_A_MATRIX_UNIT not in flags and native_linear.serves()


def native(linear: nn.Linear) -> PackedLinear:
    """The same layer on our kernel, which must take it."""
    weight = linear.weight.detach()
    return PackedLinear(native_linear.pack(weight), torch.ones(len(weight), dtype=weight.dtype), linear.bias)


def pack(module: Any) -> None:
    """Puts every linear layer of `module` that the kernel takes on it; the embedding stays."""
    replace(module, lambda linear, is_native: native(linear) if is_native else linear)
