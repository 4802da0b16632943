"""The ids that a draft's head knows: a frequency-ranked subset of the target's (FR-Spec, arXiv 2502.14856)."""

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from forerun.training.shard import Shard

Ids = npt.NDArray[np.int64]
Masses = npt.NDArray[np.float64]
_CHUNK = 65_536  # rows of laws at a time


def masses(shards: Iterable[Shard], vocab_size: int, num_laws: int | None = None) -> Masses:
    """What each id `[vocab_size]` weighs in the target's laws: how often it comes, but for the luck of the draw.

    In all of them, or in the first num_laws.
    """
    total = np.zeros(vocab_size)
    for shard in shards:
        end = len(shard.top_ids) if num_laws is None else min(len(shard.top_ids), num_laws)
        num_laws = None if num_laws is None else num_laws - end
        for start in range(0, end, _CHUNK):
            rows = slice(start, min(start + _CHUNK, end))
            ids, probs = shard.top_ids[rows], shard.top_probs[rows]
            total += np.bincount(ids.ravel(), probs.ravel().astype(np.float64), vocab_size)
    return total


def choose_vocabulary(mass: Masses, size: int, always: Iterable[int]) -> Ids:
    """`size` ids, ascending: those in `always` (special and end ids), then the heaviest. Size 0 is all of them."""
    if not size or size >= len(mass):
        return np.arange(len(mass))
    ranked = mass.copy()
    ranked[[token for token in always if 0 <= token < len(mass)]] = np.inf
    return np.sort(np.argsort(-ranked, kind="stable")[:size])


def coverage(mass: Masses, ids: Ids) -> float:
    """Share of what the target writes that these ids are."""
    return float(mass[ids].sum() / mass.sum())


def columns_of(ids: Ids, vocab_size: int) -> Ids:
    """The column of each id `[vocab_size]` in a head that knows `ids`; -1 for those that it does not know."""
    columns = np.full(vocab_size, -1, np.int64)
    columns[ids] = np.arange(len(ids))
    return columns
