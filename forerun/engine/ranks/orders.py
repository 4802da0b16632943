"""What rank 0 tells the others before each step, as one row of whole numbers: the flattened batch with block tables."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from forerun.engine.attention.base import Segment
from forerun.engine.batch import Batch

STEP, COPY = range(2)


@dataclass(frozen=True, slots=True)
class Copy:
    """Blocks whose content goes into others."""

    sources: tuple[int, ...]
    copies: tuple[int, ...]


Order = Batch | Copy


def encode(order: Order) -> np.ndarray:
    """`[n] int64`; see decode."""
    if isinstance(order, Copy):
        return _row([COPY, len(order.sources), *order.sources, *order.copies])
    tensors = (order.input_ids, order.positions, order.slots, order.logit_rows)
    sizes = [STEP, len(order.input_ids), len(order.logit_rows), len(order.entered), len(order.segments)]
    shapes = [n for s in order.segments for n in (s.start, s.query_len, s.context_len, len(s.block_table))]
    tables = [block for s in order.segments for block in s.block_table]
    return np.concatenate([_row(sizes), *(t.numpy() for t in tensors), _row([*order.best_of, *order.entered]),
                           _row(shapes), _row(tables)])  # fmt: skip


def decode(row: np.ndarray) -> Order:
    """The order that was encoded; its tensors share the row's memory."""
    if row[0] == COPY:
        sources, copies = (tuple(part.tolist()) for part in np.split(row[2:], 2))
        return Copy(sources, copies)
    num_rows, num_logits, num_entered, num_segments = row[1:5].tolist()
    sizes = (num_rows, num_rows, num_rows, num_logits, num_logits, num_entered, 4 * num_segments)
    *tensors, best_of, entered, shapes, tables = np.split(row[5:], np.cumsum(sizes))
    ids, positions, slots, logit_rows = (torch.from_numpy(part) for part in tensors)
    segments = tuple(_segments(shapes.reshape(-1, 4).tolist(), tables.tolist()))
    return Batch(ids, positions, slots, logit_rows, segments, tuple(entered.tolist()), tuple(best_of.tolist()))


def _segments(shapes: Sequence[Sequence[int]], tables: list[int]) -> Iterator[Segment]:
    first = 0
    for start, query_len, context_len, num_blocks in shapes:
        yield Segment(start, query_len, context_len, tables[first : first + num_blocks])
        first += num_blocks


def _row(numbers: Sequence[int]) -> np.ndarray:
    return np.array(numbers, dtype=np.int64)
