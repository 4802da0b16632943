"""The deterministic runner: every forward has the same number of rows, whatever the batch holds."""

from collections.abc import Iterator, Sequence

import torch

from forerun.engine.attention.base import Segment
from forerun.engine.batch import Batch
from forerun.engine.logits import StepLogits
from forerun.engine.runner import Runner

TILE = 16
"""Rows of a forward: enough for a few sequences with their proposals, cheap enough for one lone token."""


class TiledRunner(Runner):
    """With `paged_rowwise` attention, a row's logits depend on its own sequence alone, bit for bit."""

    def run_batch(self, batch: Batch) -> StepLogits:
        self._cache.clear(batch.entered)
        tiles = [self.compute(tile) for tile in self._tiles(batch)]
        return self._fetch(torch.cat(tiles)[batch.logit_rows.to(self._device)], batch.best_of)

    def _tiles(self, batch: Batch) -> Iterator[Batch]:
        """Cuts the batch into tiles in order, so that a sequence's earlier rows are written before later ones look."""
        every_row = torch.arange(TILE)
        for start in range(0, len(batch.input_ids), TILE):
            cut = slice(start, start + TILE)
            real = len(batch.input_ids[cut])
            pad = TILE - real
            yield Batch(
                torch.nn.functional.pad(batch.input_ids[cut], (0, pad)),
                torch.nn.functional.pad(batch.positions[cut], (0, pad)),
                torch.nn.functional.pad(batch.slots[cut], (0, pad), value=self._cache.padding_slot),
                every_row,
                tuple(_cut_segments(batch.segments, start, real)) + self._padding(real),
            )

    def _padding(self, real: int) -> tuple[Segment, ...]:
        block = self._cache.padding_slot // self._cache.block_size
        return tuple(Segment(row, 1, 1, [block]) for row in range(real, TILE))


def _cut_segments(segments: Sequence[Segment], start: int, num_rows: int) -> Iterator[Segment]:
    """The parts of the segments in rows [start, start + num_rows), with rows counted from start."""
    for segment in segments:
        first = max(segment.start, start)
        last = min(segment.start + segment.query_len, start + num_rows)
        if first < last:
            later = segment.start + segment.query_len - last
            yield Segment(first - start, last - first, segment.context_len - later, segment.block_table)
