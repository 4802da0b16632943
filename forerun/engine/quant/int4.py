"""Weight-only int4: sixteen evenly spaced int8 in every group of 32 weights of an output channel.

A weight is `scale * ((level * step + base) >> 8)`: level of 4 bits, step and base of 16 for each group, one scale per
output channel, chosen as int8's. So a product in int4 is one in int8 whose weights take 5 bits of memory, and weights
that have only 16 evenly spaced values in a group, as those of 4-bit GGUF files, are within a level of their int8.
"""

import logging
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from forerun.engine.quant import int8, native_linear
from forerun.engine.quant.integer import IntegerLinear
from forerun.engine.quant.native_linear import PackedLinear, replace

log = logging.getLogger(__name__)

GROUP = 32
LARGEST = 15
_POINT = 8  # bits of a step and of a base after the point


@dataclass(frozen=True, slots=True)
class Groups:
    """levels `[out, groups, 32] uint8`, the last group filled up; steps and bases `[out, groups] int32`."""

    levels: torch.Tensor
    steps: torch.Tensor
    bases: torch.Tensor

    def codes(self) -> torch.Tensor:
        """`[out, groups * 32] int8`, what is multiplied."""
        wide = self.levels.int() * self.steps[..., None] + self.bases[..., None]
        return (wide >> _POINT).to(torch.int8).flatten(1)


def quantized(weight: torch.Tensor) -> tuple[Groups, torch.Tensor]:
    """`[out, in]` → its groups and scales `[out]`."""
    scale = int8.scales(weight)
    one, half = 1 << _POINT, 1 << (_POINT - 1)
    fine = (weight.float() / scale.float()[:, None]).clamp(-int8.LEVELS, int8.LEVELS) * one
    missing = -weight.shape[1] % GROUP
    groups = torch.cat([fine, fine[:, -1:].expand(-1, missing)], dim=1).view(len(fine), -1, GROUP)
    least, most = groups.aminmax(dim=2)
    steps, lowest = ((most - least) / LARGEST).round(), least.round()
    levels = ((groups - lowest[..., None]) / steps.clamp_min(1)[..., None]).round().clamp(0, LARGEST)
    return Groups(levels.to(torch.uint8), steps.int(), lowest.int() + half), scale


def plain(linear: nn.Linear) -> IntegerLinear:
    """In torch's own operators, widened to 8 bits a weight."""
    groups, scale = quantized(linear.weight.detach())
    return IntegerLinear(groups.codes()[:, : linear.in_features].contiguous(), scale, linear.bias)


def native(linear: nn.Linear) -> PackedLinear:
    """On our kernel, which must take it."""
    groups, scale = quantized(linear.weight.detach())
    packed = native_linear.pack_groups(groups.levels, groups.steps, groups.bases)
    return PackedLinear(packed, scale, linear.bias)


def quantize(module: Any) -> None:
    """Replaces every linear layer of `module`; the head, whose every error is a wrong word, has int8."""
    head = module.get_output_embeddings()
    if not native_linear.serves():
        log.warning("--precision int4 takes int8's memory here: its kernel is for x86-64 CPUs with a C++ compiler")

    def made(linear: nn.Linear, is_native: bool) -> nn.Module:
        if linear is head:
            return int8.made(linear, is_native)
        return native(linear) if is_native else plain(linear)

    replace(module, made)
