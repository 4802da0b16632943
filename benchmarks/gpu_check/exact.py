"""With one split a row's bits are its own: verified among K + 1 rows, or decoded alone, whatever its neighbours."""

from collections.abc import Iterator

import torch

from benchmarks.gpu_check.batches import Heads, random_batch
from benchmarks.gpu_check.check import FAILED, MEASURED, SKIPPED, Finding, Place, judged
from benchmarks.gpu_check.world import RandomTarget, shape_of
from forerun.engine import attention
from forerun.engine.attention.base import AttentionBackend, Segment
from forerun.errors import ConfigError

NUM_ROWS = 9  # K = 8
HEADS = (Heads(32, 8, 128), Heads(9, 3, 64))


def check(place: Place) -> Iterator[Finding]:
    """The exact backends must pass; for fa3 with its own choice of splits the share of equal rows is told."""
    contexts = (40, 70) if place.is_rehearsal else (100, 1000, 4000, 16000)
    heads = (Heads(4, 2, 16),) if place.is_rehearsal else HEADS
    for name in ("fa3_exact", "varlen_exact", "fa3", "varlen") if place.on_gpu else ("paged_rowwise",):
        for size in heads:
            yield _compare(name, size, contexts, place)
    yield _whole_model(place)


def _compare(name: str, heads: Heads, contexts: tuple[int, ...], place: Place) -> Finding:
    title = f"{name}, heads of {heads.head_dim}: {NUM_ROWS} rows against one at a time"
    equal = total = 0
    try:
        backend = attention.create(name)
        for context_len in contexts:
            same, rows = _equal_rows(backend, heads, context_len, place)
            equal, total = equal + same, total + rows
    except ConfigError as error:
        return Finding(title, SKIPPED, str(error))
    except RuntimeError as error:
        return Finding(title, FAILED, str(error).splitlines()[0])
    figure = f"{equal} of {total} rows bit for bit"
    if name in ("fa3", "varlen"):
        return Finding(title, MEASURED, figure, equal / total)
    return judged(title, equal == total, figure, equal / total)


def _equal_rows(backend: AttentionBackend, heads: Heads, context_len: int, place: Place) -> tuple[int, int]:
    """The rows of one sequence in a ragged batch against each of them alone."""
    shapes = [(3, 50), (NUM_ROWS, context_len), (1, 20)]
    batch = random_batch(shapes, heads, 16, place.device, seed=context_len)
    together = batch.attend(backend, heads.options)
    ours = batch.segments[1]
    same = 0
    for row in range(NUM_ROWS):
        seen = context_len - NUM_ROWS + 1 + row
        alone = batch.only(Segment(ours.start + row, 1, seen, ours.block_table[: -(-seen // 16)]))
        same += torch.equal(alone.attend(backend, heads.options)[0], together[ours.start + row])
    return same, NUM_ROWS


def _whole_model(place: Place) -> Finding:
    """Four layers in the deterministic mode: the logits of K + 1 rows and those of one at a time."""
    target = RandomTarget(shape_of(place, num_layers=4), place, precision="bf16", deterministic=True)
    title = f"four layers, deterministic, {target.backend}: logits of {NUM_ROWS} rows against one at a time"
    tokens = target.random_tokens(100 + NUM_ROWS)
    together = target.logits(tokens, NUM_ROWS)
    alone = torch.cat([target.logits(tokens[: len(tokens) - NUM_ROWS + 1 + i], 1) for i in range(NUM_ROWS)])
    same = int((together == alone).all(dim=-1).sum())
    return judged(title, same == NUM_ROWS, f"{same} of {NUM_ROWS} rows bit for bit", same / NUM_ROWS)
