"""From plain ints to tensors: one step's rows, flattened over all its sequences."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from forerun.engine.attention.base import Segment
from forerun.engine.scheduler import Slice
from forerun.engine.upload import upload


@dataclass(frozen=True, slots=True)
class Batch:
    """input_ids, positions, slots: `[num_rows] int64`; logit_rows: `[num_logits] int64`, in the order of the slices.

    entered: blocks whose first slot is written in this step: nothing in them is anyone's yet.
    best_of: of each logit row, what its sequence says.
    """

    input_ids: torch.Tensor
    positions: torch.Tensor
    slots: torch.Tensor
    logit_rows: torch.Tensor
    segments: tuple[Segment, ...]
    entered: tuple[int, ...] = ()
    best_of: tuple[int, ...] = ()

    def on(self, device: torch.device) -> "Batch":
        """The same batch with its tensors there, in one copy."""
        if self.input_ids.device.type == device.type:
            return self
        numbers = (self.input_ids, self.positions, self.slots, self.logit_rows)
        sizes = [len(part) for part in numbers]
        ids, positions, slots, logit_rows = torch.split(upload(torch.cat(numbers), torch.long, device), sizes)
        return Batch(ids, positions, slots, logit_rows, self.segments, self.entered, self.best_of)


def flatten(slices: Sequence[Slice], block_size: int) -> Batch:
    """Lays the slices one after another, in the host's memory; a slice that reaches its goal gives its last num_logits
    rows logits."""
    ids: list[int] = []
    positions: list[int] = []
    slots: list[int] = []
    logit_rows: list[int] = []
    segments: list[Segment] = []
    entered: list[int] = []
    best_of: list[int] = []
    for piece in slices:
        sequence, start = piece.sequence, piece.sequence.num_computed
        end = start + piece.num_tokens
        segments.append(Segment(len(ids), piece.num_tokens, end, sequence.block_table))
        ids += sequence.tokens[start:end]
        positions += range(start, end)
        table = sequence.block_table
        slots += [table[p // block_size] * block_size + p % block_size for p in range(start, end)]
        entered += table[-(-start // block_size) : -(-end // block_size)]
        if end == sequence.goal:
            logit_rows += range(len(ids) - sequence.num_logits, len(ids))
            best_of += [sequence.best_of] * sequence.num_logits
    numbers = torch.from_numpy(np.array(ids + positions + slots + logit_rows, np.int64))
    sizes = [len(ids), len(positions), len(slots), len(logit_rows)]
    parts: tuple[torch.Tensor, ...] = torch.split(numbers, sizes)
    input_ids, at, written, read = parts
    return Batch(input_ids, at, written, read, tuple(segments), tuple(entered), tuple(best_of))
