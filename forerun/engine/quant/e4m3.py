"""Numbers of 8 bits, 4 of exponent and 3 of mantissa (OCP FP8 E4M3), and the scales that others are stored with."""

import torch

E4M3 = torch.float8_e4m3fn
LARGEST = 448.0
_MIN_SCALE = 1e-12  # rows of zeros


def per_row(rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """`[…, N]` → e4m3 of the same shape and scales `[…, 1] float32`: codes * scales is nearest to the rows.

    A row's largest number becomes 448, so quantising what was quantised so changes nothing.
    """
    wide = rows.float()
    scales = (wide.abs().amax(dim=-1, keepdim=True) / LARGEST).clamp_min(_MIN_SCALE)
    return stored(wide / scales), scales


def stored(numbers: torch.Tensor) -> torch.Tensor:
    """The nearest e4m3; beyond 448 it is 448, where a bare cast may give NaN."""
    return numbers.clamp(-LARGEST, LARGEST).to(E4M3)
