"""What a step hands over: whole rows of logits, or of each row its best column where nobody reads more."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np


@dataclass(frozen=True, slots=True)
class Best:
    """columns `[rows] int64`: where each row is largest among its first Sequence.best_of logits, the lowest on a tie.

    sums `[rows] float32` of all the row's logits, finite where they are.
    """

    columns: np.ndarray
    sums: np.ndarray

    def __len__(self) -> int:
        return len(self.columns)


Rows = np.ndarray | Best


class StepLogits(Protocol):
    """The rows of a step in the order of its slices; a range of one sequence's gives what that sequence reads."""

    def __getitem__(self, rows: slice, /) -> Rows: ...


def are_finite(rows: Rows) -> bool:
    """Whether every logit of the rows is."""
    sums = rows.sums if isinstance(rows, Best) else rows
    return bool(np.isfinite(sums.sum(dtype=np.float32)))
