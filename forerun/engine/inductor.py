"""On a GPU: transformers' module compiled by inductor at start, which makes a few kernels of what is dozens a layer."""

from typing import Any

import torch

from forerun.engine.compiled import padded
from forerun.engine.forward import Forward


class InductorForward:
    """See forward.Forward; in inference mode. Any number of rows from 2 on is one graph, fewer are padded.

    Its first call compiles.
    """

    def __init__(self, eager: Forward) -> None:
        self._call: Any = torch.compile(eager, dynamic=True, fullgraph=True)

    def __call__(
        self, input_ids: torch.Tensor, positions: torch.Tensor, logit_rows: torch.Tensor, step: torch.Tensor
    ) -> torch.Tensor:
        num_logits = len(logit_rows)
        numbers = (_of_one_kind(padded(part)) for part in (input_ids, positions, logit_rows))
        logits: torch.Tensor = self._call(*numbers, step)
        return logits[:num_logits]


def _of_one_kind(numbers: torch.Tensor) -> torch.Tensor:
    """Tensors from outside inference mode would be compiled for again."""
    return numbers if numbers.is_inference() else numbers.clone()
