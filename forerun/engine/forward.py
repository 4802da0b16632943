"""One forward of a model over a flattened batch, as a step calls it."""

from typing import Any, Protocol

import torch
from torch import nn


class Forward(Protocol):
    """Eager or compiled."""

    def __call__(
        self, input_ids: torch.Tensor, positions: torch.Tensor, logit_rows: torch.Tensor, step: torch.Tensor
    ) -> torch.Tensor:
        """input_ids, positions `[rows] int64`, logit_rows `[logits] int64`, step: a PagedStep's handle.

        Returns `[logits, head size] float32` of those rows.
        """
        ...


class EagerForward(nn.Module):
    """Runs transformers' own module as it is; this is also what is exported to be compiled."""

    def __init__(self, module: Any) -> None:
        super().__init__()
        self.module = module

    def forward(
        self, input_ids: torch.Tensor, positions: torch.Tensor, logit_rows: torch.Tensor, step: torch.Tensor
    ) -> torch.Tensor:
        """See Forward."""
        output = self.module(
            input_ids=input_ids[None],
            position_ids=positions[None],
            use_cache=False,
            logits_to_keep=logit_rows,
            paged=step,
        )
        logits: torch.Tensor = output.logits[0].float()
        return logits
