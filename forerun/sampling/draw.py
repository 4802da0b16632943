"""Tokens from laws: by inverse cdf, from integer weights, or by a keyed race."""

from typing import Any

import numpy as np
import numpy.typing as npt

from forerun.errors import SequenceFault
from forerun.sampling.truncation import kth_largest
from forerun.types import SparseLaw

Law = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
RawArray = npt.NDArray[np.uint64]

TOTAL_WEIGHT = 1 << 14  # a weight below it is a two-byte varint; a power of two makes the sparse draw exact
_UNIFORM_BITS = 53
_CHUNK = 256  # a running sum over chunks and then within one costs a fifth of a running sum over 49k tokens
_LARGEST_UNIFORM = 1.0 - 2.0**-53  # where raw / 2^64 would round to 1


def draw(p: Law, u: float) -> int:
    """Returns the token of `p` `[V]` that the uniform u in [0, 1) falls on; never one whose probability is 0.

    `p` need not sum to 1. Raises SequenceFault where nothing in it is positive.
    """
    starts = np.arange(0, len(p), _CHUNK)
    chunk, rest = _fall(np.add.reduceat(p, starts), u)
    start = int(starts[chunk])
    return start + _fall_within(p[start : start + _CHUNK], rest)


def one_hot(size: int, token: int) -> Law:
    """Returns the law `[size]` that gives `token` alone."""
    p = np.zeros(size)
    p[token] = 1.0
    return p


def truncate(p: Law, num_support: int, ids: IntArray | None = None) -> SparseLaw:
    """Returns the num_support likeliest tokens of `p` `[V]` as integer weights that sum to TOTAL_WEIGHT.

    `ids` `[V]` names the token of each entry of `p` where that is not its index. Tokens whose weight would
    round to 0 are left out; of equal ones the lowest index stays. The choice depends on `p` alone, so a draft
    may draw from the result and report it.
    """
    support = np.flatnonzero(p >= kth_largest(p, min(num_support, len(p))))
    if len(support) > num_support:
        support = np.sort(support[np.argsort(-p[support], kind="stable")[:num_support]])
    weights = _round_to_total(p[support])
    kept = weights > 0
    chosen = support[kept].astype(np.int64)
    return SparseLaw(chosen if ids is None else ids[chosen], weights[kept])


def draw_sparse(law: SparseLaw, u: float) -> int:
    """Returns the token that u, a multiple of 2^-53 in [0, 1), falls on; integers only, so the same everywhere."""
    cumulative = np.cumsum(law.weights)
    numerator = int(u * (1 << _UNIFORM_BITS)) * int(cumulative[-1])
    index = np.searchsorted(cumulative, numerator >> _UNIFORM_BITS, side="right")
    return int(law.ids[index])


def race(p: Law, raw: RawArray) -> int:
    """Returns argmin over v of E_v / p_v with E_v = -log(1 - raw_v / 2^64), which has law `p` when raw is uniform.

    As -log(1 - u) ≥ u, only entries whose u_v / p_v is below some runner's time can win: few logarithms are taken.
    """
    bound = raw * 2.0**-64
    with np.errstate(divide="ignore", invalid="ignore"):
        bound /= p
    first = int(np.argmin(bound))
    if not p[first] > 0:
        return _race_without_zeros(p, raw)
    runners = np.flatnonzero(bound <= _time(p, raw, first))
    return int(runners[np.argmin(_time(p, raw, runners))])


def _time(p: Law, raw: RawArray, tokens: Any) -> Any:
    u = np.minimum(raw[tokens] * 2.0**-64, _LARGEST_UNIFORM)
    return -np.log1p(-u) / p[tokens]


def _race_without_zeros(p: Law, raw: RawArray) -> int:
    """A raw 0 over a probability 0 is not a number, and would win."""
    if not p.sum() > 0:
        raise SequenceFault("no token has a positive probability")
    return race(p, np.maximum(raw, 1))


def _fall(masses: Law, u: float) -> tuple[int, float]:
    """Returns the entry that u of the whole mass falls on, and how far into it."""
    cumulative = np.cumsum(masses)
    if not cumulative[-1] > 0:
        raise SequenceFault("no token has a positive probability")
    goal = u * cumulative[-1]
    index = int(np.searchsorted(cumulative, goal, side="right"))
    if index == len(masses):
        index = int(np.flatnonzero(masses > 0)[-1])
    return index, float(goal - cumulative[index - 1]) if index else float(goal)


def _fall_within(p: Law, goal: float) -> int:
    """Returns the entry at which the running sum passes `goal`, the last positive one where rounding keeps it below."""
    index = int(np.searchsorted(np.cumsum(p), goal, side="right"))
    return index if index < len(p) else int(np.flatnonzero(p > 0)[-1])


def _round_to_total(p: Law) -> IntArray:
    """Largest remainders: integers `[S]` nearest to `p` scaled to sum to TOTAL_WEIGHT."""
    scaled = p * (TOTAL_WEIGHT / p.sum())
    weights: IntArray = scaled.astype(np.int64)
    missing = TOTAL_WEIGHT - int(weights.sum())
    weights[np.argsort(weights - scaled, kind="stable")[:missing]] += 1
    return weights
