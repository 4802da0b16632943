"""The reference backend: gathers each sequence's blocks and attends with torch's scaled_dot_product_attention.

Sequences of like shape are padded together, so that a step costs a few calls a layer, not a few per sequence.
The query heads that share a key head are folded into query rows (grouped-query attention without copies of keys).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import torch
from torch.nn import functional

from forerun.engine.attention.base import AttentionOptions, LayerCache, Segment
from forerun.engine.quant.kv import restored

MAX_WASTE = 2048
"""Query-key pairs that a group may compute for nothing: about what another call costs."""

MAX_QUERY_ROWS = 128
"""Longer prefills are cut, so that early rows do not multiply with all the keys that come after them."""


@dataclass(frozen=True, slots=True)
class Group:
    """Sequences attended together, padded to Q query rows and L keys each.

    rows: `[B * Q]` batch rows, padding repeats a real row; None where they are the whole batch in order.
    real: `[R]` places in rows that are not padding; None where all are.
    blocks: `[B * L / block_size]`. positions: `[B, Q]` of the queries.
    masks: what this step's layers share, one for each sliding window.
    """

    rows: torch.Tensor | None
    real: torch.Tensor | None
    blocks: torch.Tensor
    positions: torch.Tensor
    batch: int
    query_len: int
    num_keys: int
    sees_all: bool
    masks: dict[int | None, torch.Tensor] = field(default_factory=dict)


class PagedCpu:
    """Exact for any ragged batch; what other backends are compared with."""

    name = "paged_cpu"

    def plan(self, segments: Sequence[Segment], block_size: int, device: torch.device) -> list[Group]:
        whole = sum(segment.query_len for segment in segments)
        pieces = [piece for segment in segments for piece in split(segment, MAX_QUERY_ROWS)]
        return [make_group(part, block_size, whole, device) for part in _partition(pieces)]

    def attend(
        self, query: torch.Tensor, cache: LayerCache, plan: list[Group], options: AttentionOptions
    ) -> torch.Tensor:
        if len(plan) == 1 and plan[0].rows is None:
            return _attend_group(query, cache, plan[0], options)
        output = torch.empty_like(query)
        for group in plan:
            rows = query if group.rows is None else query[group.rows]
            attended = _attend_group(rows, cache, group, options)
            if group.rows is None:
                output.copy_(attended)
            elif group.real is None:
                output[group.rows] = attended
            else:
                output[group.rows[group.real]] = attended[group.real]
        return output


def split(segment: Segment, max_rows: int) -> Iterator[Segment]:
    """The segment in pieces of at most max_rows query rows, each with the keys that its last row sees."""
    first = segment.context_len - segment.query_len
    for start in range(0, segment.query_len, max_rows):
        count = min(max_rows, segment.query_len - start)
        yield Segment(segment.start + start, count, first + start + count, segment.block_table)


def _partition(segments: Sequence[Segment]) -> list[list[Segment]]:
    """Cuts the batch into groups of one query length class and like context lengths."""
    parts: list[list[Segment]] = []
    for segment in sorted(segments, key=lambda s: (s.query_len, s.context_len)):
        if parts and _fits(parts[-1], segment):
            parts[-1].append(segment)
        else:
            parts.append([segment])
    return parts


def _fits(part: list[Segment], segment: Segment) -> bool:
    members = [*part, segment]
    padded = len(members) * max(m.query_len for m in members) * max(m.context_len for m in members)
    return padded - sum(m.query_len * m.context_len for m in members) <= MAX_WASTE


def make_group(part: Sequence[Segment], block_size: int, num_rows: int, device: torch.device, step: int = 1) -> Group:
    """Pads the segments of one group, its keys to a multiple of `step` blocks. num_rows: of the whole batch."""
    query_len = max(segment.query_len for segment in part)
    num_blocks = max(-(-segment.context_len // (block_size * step)) * step for segment in part)
    rows: list[int] = []
    positions: list[list[int]] = []
    blocks: list[int] = []
    real: list[int] = []
    for index, segment in enumerate(part):
        pad = query_len - segment.query_len
        rows += list(range(segment.start, segment.start + segment.query_len)) + [segment.start] * pad
        real += range(index * query_len, index * query_len + segment.query_len)
        first = segment.context_len - segment.query_len
        positions.append(list(range(first, segment.context_len)) + [first] * pad)
        table = list(segment.block_table[: -(-segment.context_len // block_size)])
        blocks += table + [table[-1]] * (num_blocks - len(table))
    alone = len(part) == 1 and step == 1
    return Group(
        rows=None if rows == list(range(num_rows)) else torch.tensor(rows, device=device),
        real=None if len(real) == len(rows) else torch.tensor(real, device=device),
        blocks=torch.tensor(blocks, device=device),
        positions=torch.tensor(positions, device=device),
        batch=len(part),
        query_len=query_len,
        num_keys=part[0].context_len if alone else num_blocks * block_size,
        sees_all=alone and query_len == 1,
    )


def _attend_group(rows: torch.Tensor, cache: LayerCache, group: Group, options: AttentionOptions) -> torch.Tensor:
    """rows `[B * Q, H, D]` → the same shape."""
    num_heads, head_dim = rows.shape[1:]
    keys = _gather(cache.keys, cache.key_scale, group, rows.dtype)
    values = _gather(cache.values, cache.value_scale, group, rows.dtype)
    kv_heads = keys.shape[1]
    fold = num_heads // kv_heads
    query = rows.view(group.batch, group.query_len, kv_heads, fold, head_dim).permute(0, 2, 3, 1, 4)
    query = query.reshape(group.batch, kv_heads, fold * group.query_len, head_dim)
    mask = _mask(group, options.sliding_window, fold, rows.dtype)
    if options.softcap is None and options.sinks is None:
        attended = functional.scaled_dot_product_attention(query, keys, values, attn_mask=mask, scale=options.scale)
    else:
        attended = _attend_plainly(query, keys, values, mask, options, fold)
    attended = attended.view(group.batch, kv_heads, fold, group.query_len, head_dim).permute(0, 3, 1, 2, 4)
    return attended.reshape(group.batch * group.query_len, num_heads, head_dim)


def _gather(side: torch.Tensor, scale: torch.Tensor | None, group: Group, dtype: torch.dtype) -> torch.Tensor:
    """`[num_blocks, block_size, KV, D]` → `[B, KV, L, D]` of the group's blocks."""
    taken = restored(side.index_select(0, group.blocks), scale, dtype).view(group.batch, -1, *side.shape[2:])
    return taken[:, : group.num_keys].transpose(1, 2)


def _mask(group: Group, sliding_window: int | None, fold: int, dtype: torch.dtype) -> torch.Tensor | None:
    """`[B, 1, fold * Q, L]`: 0 where a query may look at a key, else -inf; None where each may look at all."""
    if group.sees_all and (sliding_window is None or sliding_window >= group.num_keys):
        return None
    if sliding_window not in group.masks:
        group.masks[sliding_window] = _make_mask(group, sliding_window, dtype).repeat(1, fold, 1)[:, None]
    return group.masks[sliding_window]


def _make_mask(group: Group, sliding_window: int | None, dtype: torch.dtype) -> torch.Tensor:
    keys = torch.arange(group.num_keys, device=group.positions.device)
    queries = group.positions[:, :, None]
    hidden = keys > queries
    if sliding_window is not None:
        hidden |= keys <= queries - sliding_window
    return torch.zeros(hidden.shape, dtype=dtype, device=hidden.device).masked_fill_(hidden, float("-inf"))


def _attend_plainly(
    query: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    mask: torch.Tensor | None,
    options: AttentionOptions,
    fold: int,
) -> torch.Tensor:
    """Softmax attention with score capping and attention sinks, which the fused kernels lack."""
    scores = (query @ keys.transpose(-1, -2)).float() * options.scale
    if options.softcap is not None:
        scores = options.softcap * torch.tanh(scores / options.softcap)
    if mask is not None:
        scores = scores + mask
    if options.sinks is not None:
        batch, kv_heads, rows, _ = scores.shape
        sinks = options.sinks.float().view(1, kv_heads, fold, 1).expand(batch, -1, -1, rows // fold)
        scores = torch.cat([scores, sinks.reshape(batch, kv_heads, rows, 1)], dim=-1)
    weights = scores.softmax(dim=-1)[..., : keys.shape[2]]
    return weights.to(values.dtype) @ values
