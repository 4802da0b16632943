"""From the device to numpy, in one synchronisation: of rows whose owner reads their best column alone, only that.

A row of 128k float32 logits is half a megabyte, and a step of 64 sequences with 8 drafted tokens has 576 of them.
"""

from collections.abc import Callable, Sequence

import numpy as np
import torch

from forerun.engine.logits import Best, Rows, StepLogits
from forerun.engine.upload import upload

Fetch = Callable[[torch.Tensor, Sequence[int]], StepLogits]
"""logits `[N, head size] float32` on the device and best_of of each row → the same on the host."""


def whole(logits: torch.Tensor, best_of: Sequence[int]) -> StepLogits:
    """Every row as it is: where the device's memory is the host's, nothing is saved by less."""
    rows: np.ndarray = logits.cpu().numpy()
    return rows


def nothing(logits: torch.Tensor, best_of: Sequence[int]) -> StepLogits:
    """None of them: another rank reads them."""
    return np.empty((0, logits.shape[1]), np.float32)


def reduced(logits: torch.Tensor, best_of: Sequence[int]) -> StepLogits:
    """Whole only the rows whose best_of is 0."""
    kept = [row for row, width in enumerate(best_of) if not width]
    if len(kept) == len(best_of):
        return whole(logits, best_of)
    sums = logits.sum(dim=-1)
    columns = {width: logits[:, :width].argmax(dim=-1) for width in set(best_of) if width}
    rows = logits[upload(kept, torch.long, logits.device)]
    # The step's one device synchronisation: everything after it is numpy.
    sums_there, rows_there, *columns_there = _to_host([sums, rows, *columns.values()])
    places = {row: place for place, row in enumerate(kept)}
    return _Reduced(best_of, dict(zip(columns, columns_there, strict=True)), sums_there, rows_there, places)


class _Reduced:
    """columns: of every row, for each best_of that occurs. places: where in rows those are that were kept whole."""

    def __init__(
        self,
        best_of: Sequence[int],
        columns: dict[int, np.ndarray],
        sums: np.ndarray,
        rows: np.ndarray,
        places: dict[int, int],
    ) -> None:
        self._best_of = best_of
        self._columns = columns
        self._sums = sums
        self._rows = rows
        self._places = places

    def __len__(self) -> int:
        return len(self._best_of)

    def __getitem__(self, rows: slice) -> Rows:
        """The rows of one sequence, so all are wanted alike; of a prompt that is not computed to its end, none."""
        if rows.start == rows.stop:
            return self._rows[:0]
        if width := self._best_of[rows.start]:
            return Best(self._columns[width][rows], self._sums[rows])
        first = self._places[rows.start]
        part: np.ndarray = self._rows[first : first + rows.stop - rows.start]
        return part


def _to_host(tensors: Sequence[torch.Tensor]) -> list[np.ndarray]:
    if tensors[0].device.type != "cuda":
        return [tensor.cpu().numpy() for tensor in tensors]
    there = [torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True) for tensor in tensors]
    for target, source in zip(there, tensors, strict=True):
        target.copy_(source, non_blocking=True)
    torch.cuda.current_stream(tensors[0].device).synchronize()
    return [target.numpy() for target in there]
