"""The ids that a draft's head knows: a frequency-ranked subset of the target's (FR-Spec, arXiv 2502.14856)."""

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from forerun.training.shard import Shard

Ids = npt.NDArray[np.int64]
Masses = npt.NDArray[np.float64]
_CHUNK = 65_536  # rows of laws at a time


def masses(shards: Iterable[Shard], vocab_size: int) -> Masses:
    """What each id `[vocab_size]` weighs in all the target's laws: how often it comes, but for the luck of the draw."""
    total = np.zeros(vocab_size)
    for shard in shards:
        for start in range(0, len(shard.top_ids), _CHUNK):
            ids, probs = shard.top_ids[start : start + _CHUNK], shard.top_probs[start : start + _CHUNK]
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
