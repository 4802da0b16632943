"""A step as FlashAttention's paged kernels take it: ragged queries, a length and a row of blocks for each sequence."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from forerun.engine.attention.base import Segment
from forerun.engine.upload import upload

EXACT_QUERY_LEN = 16
"""What a deterministic backend calls its longest query at least: kernels choose their tiles by that number, and
decoding, verification and the tiles of a prefill are to get the same."""


@dataclass(frozen=True, slots=True)
class RaggedPlan:
    """Sequence i has query rows [cu_seqlens_q[i], cu_seqlens_q[i + 1]), the last of its cache_seqlens[i] tokens.

    cu_seqlens_q `[S + 1]`, cache_seqlens `[S]`, page_table `[S, P]`, all int32 on the device. A row of the table is
    filled up with the sequence's own last block: a kernel may read it and finds finite numbers.
    """

    cu_seqlens_q: torch.Tensor
    cache_seqlens: torch.Tensor
    page_table: torch.Tensor
    max_query_len: int
    max_context_len: int
    num_keys: int


def plan_ragged(segments: Sequence[Segment], block_size: int, device: torch.device) -> RaggedPlan:
    """The segments lie one after another from row 0 on, as a batch has them. One copy to the device."""
    count = len(segments)
    num_pages = [-(-segment.context_len // block_size) for segment in segments]
    width = max(num_pages)
    numbers = [segment.start for segment in segments]
    numbers.append(segments[-1].start + segments[-1].query_len)
    numbers += [segment.context_len for segment in segments]
    for segment, used in zip(segments, num_pages, strict=True):
        table = segment.block_table[:used]
        numbers += table
        numbers += [table[-1]] * (width - used)
    sizes = [count + 1, count, count * width]
    cu_seqlens_q, cache_seqlens, pages = torch.split(upload(numbers, torch.int32, device), sizes)
    return RaggedPlan(
        cu_seqlens_q,
        cache_seqlens,
        pages.view(count, width),
        max(segment.query_len for segment in segments),
        max(segment.context_len for segment in segments),
        sum(segment.context_len for segment in segments),
    )


def window(sliding_window: int | None) -> int:
    """How far a query looks back, itself not counted, as these kernels count; -1 is all the way."""
    return -1 if sliding_window is None else sliding_window - 1
