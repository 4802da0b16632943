"""The last resort on a GPU: gathers blocks and calls torch's scaled_dot_product_attention as rarely as it can."""

from collections.abc import Sequence

import torch

from forerun.engine.attention.base import Segment
from forerun.engine.attention.paged_cpu import Group, PagedCpu, make_group, split
from forerun.engine.scheduler import SHORT

MAX_QUERY_ROWS = 512
"""Longer prefills are cut, which bounds the mask."""


class Sdpa(PagedCpu):
    """One call a layer for all that decodes or is verified, and one for each piece of a prefill.

    A GPU computes padding faster than it starts another kernel, where paged_cpu weighs the two.
    """

    name = "sdpa"

    def plan(self, segments: Sequence[Segment], block_size: int, device: torch.device) -> list[Group]:
        whole = sum(segment.query_len for segment in segments)
        short = [segment for segment in segments if segment.query_len <= SHORT]
        long = [segment for segment in segments if segment.query_len > SHORT]
        parts = [[piece] for segment in long for piece in split(segment, MAX_QUERY_ROWS)]
        return [make_group(part, block_size, whole, device) for part in ([short] if short else []) + parts]
