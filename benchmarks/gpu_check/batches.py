"""Random ragged batches over a paged cache in scattered blocks."""

import math
from dataclasses import dataclass

import torch

from forerun.engine.attention.base import AttentionBackend, AttentionOptions, LayerCache, Segment

Shapes = list[tuple[int, int]]
"""(query_len, context_len) of each sequence."""


@dataclass(frozen=True, slots=True)
class Heads:
    """Of a layer."""

    num_heads: int
    num_kv_heads: int
    head_dim: int

    @property
    def options(self) -> AttentionOptions:
        return AttentionOptions(self.head_dim**-0.5)


@dataclass(frozen=True, slots=True)
class RandomBatch:
    """query `[rows, H, D]`, a cache, and whose rows they are."""

    query: torch.Tensor
    cache: LayerCache
    segments: list[Segment]
    block_size: int

    def attend(self, backend: AttentionBackend, options: AttentionOptions) -> torch.Tensor:
        """`[rows, H, D]`."""
        plan = backend.plan(self.segments, self.block_size, self.query.device)
        return backend.attend(self.query, self.cache, plan, options)

    def only(self, segment: Segment) -> "RandomBatch":
        """One of its sequences alone, or a part of its rows; start counts in this batch."""
        rows = self.query[segment.start : segment.start + segment.query_len]
        alone = Segment(0, segment.query_len, segment.context_len, segment.block_table)
        return RandomBatch(rows, self.cache, [alone], self.block_size)

    def in_float32(self) -> "RandomBatch":
        """The same numbers; FP8 with its scales applied."""
        cache = self.cache
        sides = ((cache.keys, cache.key_scale), (cache.values, cache.value_scale))
        wide = [side.float() if scale is None else side.float() * scale[:, None] for side, scale in sides]
        return RandomBatch(self.query.float(), LayerCache(*wide), self.segments, self.block_size)


def random_batch(shapes: Shapes, heads: Heads, block_size: int, device: torch.device, seed: int = 0) -> RandomBatch:
    """In bf16."""
    generator = torch.Generator().manual_seed(seed)
    counts = [math.ceil(context_len / block_size) for _, context_len in shapes]
    size = (sum(counts) + 3, block_size, heads.num_kv_heads, heads.head_dim)
    keys, values = (torch.randn(size, generator=generator).to(device, torch.bfloat16) for _ in range(2))
    free = torch.randperm(size[0], generator=generator).tolist()
    segments, start = list[Segment](), 0
    for (query_len, context_len), count in zip(shapes, counts, strict=True):
        segments.append(Segment(start, query_len, context_len, [free.pop() for _ in range(count)]))
        start += query_len
    query = torch.randn(start, heads.num_heads, heads.head_dim, generator=generator).to(device, torch.bfloat16)
    return RandomBatch(query, LayerCache(keys, values), segments, block_size)
