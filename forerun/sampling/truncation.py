"""Top-k, top-p and min-p: laws without their unlikely tokens.

All three cut at a probability, so tokens of equal probability stay or go together and no order among them matters.
"""

import numpy as np
import numpy.typing as npt

Law = npt.NDArray[np.float64]

_BIN_SHIFT = 50  # a double's exponent and two bits of its mantissa: 4 bins an octave, in the order of the doubles
_NUM_BINS = (1023 << 2) + 8  # probabilities up to 1, and rounding


def keep_top_k(p: Law, k: int) -> Law:
    """Returns `p` `[V]` without what is less likely than its k-th likeliest token, 0 < k ≤ V; sum 1."""
    return _keep_from(p, kth_largest(p, k))


def keep_top_p(p: Law, mass: float) -> Law:
    """Returns `p` `[V]` without what the fewest likeliest tokens of together at least `mass` leave out; sum 1.

    Expects p to sum to 1.
    """
    bins = _bins(p)
    above, edge = _split(np.bincount(bins, weights=p, minlength=_NUM_BINS), mass)
    candidates = np.sort(p[bins == edge])[::-1]
    last = int(np.searchsorted(np.cumsum(candidates), mass - above, side="left"))
    return _keep_from(p, float(candidates[min(last, len(candidates) - 1)]))


def keep_min_p(p: Law, ratio: float) -> Law:
    """Returns `p` `[V]` without what is less likely than `ratio` times the likeliest token; sum 1."""
    return _keep_from(p, ratio * float(p.max()))


def kth_largest(p: Law, k: int) -> float:
    """Returns the k-th largest entry of `p` `[V]`, entries in [0, 1], 0 < k ≤ V."""
    bins = _bins(p)
    above, edge = _split(np.bincount(bins, minlength=_NUM_BINS), k)
    candidates = np.sort(p[bins == edge])[::-1]
    return float(candidates[k - int(above) - 1])


def _bins(p: Law) -> npt.NDArray[np.int64]:
    """Sorting 49k doubles costs 2 ms; a histogram over their leading bits leaves a few hundred to sort."""
    return p.view(np.int64) >> _BIN_SHIFT


def _split(totals: npt.NDArray[np.float64] | npt.NDArray[np.int64], goal: float) -> tuple[float, int]:
    """Returns the bin in which the totals, summed from the largest bin down, reach `goal`, and the sum above it.

    Where rounding keeps the sum below goal that is the lowest bin that holds anything.
    """
    downward = np.cumsum(totals[::-1])
    index = int(np.searchsorted(downward, min(goal, downward[-1]), side="left"))
    first = int(np.argmax(totals[::-1] > 0))
    index = max(index, first)
    above = float(downward[index - 1]) if index else 0.0
    return above, len(totals) - 1 - index


def _keep_from(p: Law, threshold: float) -> Law:
    kept = p * (p >= threshold)
    kept /= kept.sum()
    return kept
