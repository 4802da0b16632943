"""How a step's numbers reach the device: together, without anyone waiting for the copy."""

from collections.abc import Sequence

import torch


def upload(numbers: Sequence[int] | torch.Tensor, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """The numbers on the device; to a GPU from page-locked memory, in the order of its stream."""
    here = torch.as_tensor(numbers, dtype=dtype)
    if device.type != "cuda" or here.is_cuda:
        return here.to(device)
    return here.pin_memory().to(device, non_blocking=True)
