"""The deterministic backend: every row attends alone, in kernels whose shapes depend on its position only.

So no neighbour in the batch, no chunk boundary and no number of drafted tokens can change a bit of its output.
"""

from collections.abc import Sequence

import torch

from forerun.engine.attention.base import Segment
from forerun.engine.attention.paged_cpu import Group, PagedCpu, make_group, split

KEY_BLOCKS = 8
"""Keys are gathered in multiples of this many blocks, so that a row's kernel shape depends on its position alone."""


class PagedRowwise(PagedCpu):
    """Slow and exactly repeatable."""

    name = "paged_rowwise"

    def plan(self, segments: Sequence[Segment], block_size: int, device: torch.device) -> list[Group]:
        whole = sum(segment.query_len for segment in segments)
        rows = [row for segment in segments for row in split(segment, max_rows=1)]
        return [make_group([row], block_size, whole, device, step=KEY_BLOCKS) for row in rows]
