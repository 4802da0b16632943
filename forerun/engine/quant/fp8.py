"""W8A8 in e4m3, made at load: a scale for each output channel of a weight, and one for each row of activations.

On a GPU the product is `torch._scaled_mm` (rowwise). A CPU multiplies FP8 a hundred times slower than anything else,
so there the codes are kept widened and the same numbers come out of a float32 product.
"""

import logging
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from forerun.engine.quant.e4m3 import per_row
from forerun.errors import ConfigError

log = logging.getLogger(__name__)

OLDEST = (8, 9)
"""CUDA compute capability of Ada, the first that multiplies FP8; Hopper is 9.0."""

_MULTIPLE = 16  # what _scaled_mm demands of both of a weight's sizes
_SENSITIVE = ("router", "gate")  # a mixture's router: small, and its every error is a wrong expert


class Fp8Linear(nn.Module):
    """weight `[out, in]`: e4m3 codes, on a CPU widened to float32. scale `[1, out] float32`. bias `[out]` or None."""

    weight: torch.Tensor
    scale: torch.Tensor
    bias: torch.Tensor | None

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        codes, scales = per_row(linear.weight.detach())
        self.register_buffer("weight", codes.float() if codes.device.type == "cpu" else codes)
        self.register_buffer("scale", scales.t().contiguous())
        self.register_buffer("bias", None if linear.bias is None else linear.bias.detach())

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """rows `[…, in]` → `[…, out]` of the same dtype."""
        codes, scales = per_row(rows.reshape(-1, rows.shape[-1]))
        if codes.device.type == "cpu":
            product = (functional.linear(codes.float(), self.weight) * scales * self.scale).to(rows.dtype)
        else:
            product = torch._scaled_mm(codes, self.weight.t(), scale_a=scales, scale_b=self.scale, out_dtype=rows.dtype)
        product = product.view(*rows.shape[:-1], -1)
        return product if self.bias is None else product + self.bias


def quantize(module: Any) -> None:
    """Replaces the linear layers of `module` but those that `kept` names, where they are: move it first.

    Raises ConfigError where its device multiplies no FP8.
    """
    check(module.device)
    stays = kept(module)
    log.info("FP8 leaves as they are: the embedding, all norms, %s", ", ".join(stays) or "nothing else")
    for name, child in list(module.named_modules()):
        if isinstance(child, nn.Linear) and name not in stays:
            parent, _, own_name = name.rpartition(".")
            setattr(module.get_submodule(parent), own_name, Fp8Linear(child))


def kept(module: Any) -> list[str]:
    """Linear layers that must not be quantised: the head, routers of experts, and sizes that no kernel takes."""
    head = module.get_output_embeddings()
    return [
        name
        for name, child in module.named_modules()
        if isinstance(child, nn.Linear)
        and (
            child is head
            or name.rpartition(".")[2] in _SENSITIVE
            or child.in_features % _MULTIPLE
            or child.out_features % _MULTIPLE
        )
    ]


def check(device: torch.device) -> None:
    """Raises ConfigError where the device multiplies no FP8."""
    if device.type != "cuda":
        return
    capability = torch.cuda.get_device_capability(device)
    if capability < OLDEST:
        major, minor = capability
        raise ConfigError(
            f"--precision fp8 needs a GPU of compute capability {OLDEST[0]}.{OLDEST[1]} (Ada) or newer, "
            f"{torch.cuda.get_device_name(device)} has {major}.{minor}; choose bf16"
        )
