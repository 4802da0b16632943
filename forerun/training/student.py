"""The draft in training."""

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from forerun.training.batches import Batch
from forerun.training.head import Head

Ids = npt.NDArray[np.int64]


class Student:
    """A module of few layers under a head of few ids; embedding and head are the target's and stay as they are.

    ids `[V] int64`, ascending: what its head knows. dtype: of its forward; weights are float32.
    """

    def __init__(self, module: Any, ids: Ids, dtype: torch.dtype = torch.bfloat16) -> None:
        self.module, self.ids, self.dtype = module, ids, dtype
        self.device: torch.device = module.get_input_embeddings().weight.device
        self.head = Head.of(module).trimmed(torch.from_numpy(ids).to(self.device), dtype)
        for frozen in (module.get_input_embeddings(), module.get_output_embeddings()):
            frozen.requires_grad_(False)

    def hidden(self, batch: Batch) -> torch.Tensor:
        """The states `[G, H]` from which the batch's scored tokens are predicted."""
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.dtype == torch.bfloat16):
            states = self.module.base_model(input_ids=batch.input_ids, use_cache=False).last_hidden_state
        rows: torch.Tensor = states.flatten(0, 1)[batch.rows]
        return rows

    def weights(self) -> dict[str, nn.Parameter]:
        """Those that training changes, by name."""
        return {name: weight for name, weight in self.module.named_parameters() if weight.requires_grad}
