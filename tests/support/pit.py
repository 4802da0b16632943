"""Whether long streams follow their laws: the randomised probability-integral transform.

A token x_t drawn from p_t gives u_t = P(before x_t) + V p_t(x_t), V uniform. Whatever the laws are and however each
depends on what was drawn before, the u_t are independent and uniform if, and only if, the tokens follow them.
"""

import numpy as np
from scipy import stats

GRID = 5
NUM_TESTS = 6
SMALLEST = 1e-3  # the logarithm of less would let few tokens rule a sum that has to be normal


def uniforms(laws, emitted, rng, likeliest_first):
    """u_t `[T]` of tokens `[T]` under laws `[T, V]`, the ids in their order or the likeliest first."""
    order = (
        np.argsort(-laws, axis=1, kind="stable")
        if likeliest_first
        else np.tile(np.arange(laws.shape[1]), (len(laws), 1))
    )
    ordered = np.take_along_axis(laws, order, axis=1)
    place = (order == np.asarray(emitted)[:, None]).argmax(axis=1)
    rows = np.arange(len(laws))
    upper = np.cumsum(ordered, axis=1)[rows, place]
    return np.clip(upper - rng.random(len(laws)) * ordered[rows, place], 0.0, 1.0)


def p_values(streams, seed):
    """NUM_TESTS p-values for `streams` of (laws `[T, V]`, draft's log-probabilities `[T, V]`, tokens `[T]`).

    Two Kolmogorov-Smirnov tests of the u_t, one of neighbours' independence, and three score tests, each the most
    powerful against one way to be wrong: another temperature, another penalty on repetition, too much of the draft.
    """
    rng = np.random.default_rng(seed)
    by_id = [uniforms(laws, emitted, rng, False) for laws, _, emitted in streams]
    by_rank = [uniforms(laws, emitted, rng, True) for laws, _, emitted in streams]
    return [
        stats.kstest(np.concatenate(by_id), "uniform").pvalue,
        stats.kstest(np.concatenate(by_rank), "uniform").pvalue,
        _neighbours(by_rank),
        _score(streams, lambda laws, favour, emitted: np.log(np.maximum(laws, SMALLEST))),
        _score(streams, lambda laws, favour, emitted: _repeats(laws, emitted)),
        _score(streams, lambda laws, favour, emitted: np.maximum(favour, np.log(SMALLEST))),
    ]


def count_p_value(counts, expected):
    """Chi-square of `counts` `[V]` against `expected` `[V]`, rare ones pooled; 0 where the impossible happened."""
    if (counts[expected == 0] > 0).any():
        return 0.0
    statistic, freedom = _chi_square(counts, expected)
    return float(stats.chi2.sf(statistic, freedom))


def miss_probability(wrong, expected, alarm):
    """How likely it is that counts which expect `wrong` `[V]` give a p-value above `alarm` against `expected` `[V]`."""
    noncentrality, freedom = _chi_square(wrong, expected)
    return float(stats.ncx2.cdf(stats.chi2.isf(alarm, freedom), freedom, noncentrality))


def _chi_square(counts, expected):
    common = expected >= 5
    observed, wanted = counts[common].astype(float), expected[common]
    rest = expected[~common].sum()
    if rest > 0:
        observed, wanted = np.append(observed, counts[~common].sum()), np.append(wanted, rest)
    return ((observed - wanted) ** 2 / wanted).sum(), len(wanted) - 1


def _neighbours(streams):
    """Chi-square of pairs (u_t, u_t+1) on a grid; pairs do not overlap, so that they are independent."""
    grid = np.zeros((GRID, GRID))
    for u in streams:
        cells = np.minimum((u * GRID).astype(int), GRID - 1)
        even = len(cells) // 2 * 2
        np.add.at(grid, (cells[0:even:2], cells[1:even:2]), 1)
    expected = grid.sum() / GRID**2
    return float(stats.chi2.sf(((grid - expected) ** 2 / expected).sum(), GRID**2 - 1))


def _score(streams, weight):
    """Two-sided p-value of sum f_t(x_t) - E f_t, a martingale whose variance is known."""
    excess = variance = 0.0
    for laws, favour, emitted in streams:
        f = weight(laws, favour, emitted)
        mean = (laws * f).sum(axis=1)
        excess += (f[np.arange(len(emitted)), emitted] - mean).sum()
        variance += (laws * (f - mean[:, None]) ** 2).sum()
    return float(2 * stats.norm.sf(abs(excess) / variance**0.5)) if variance > 1 else 1.0


def _repeats(laws, emitted):
    """How often each token was emitted before, up to 3 times."""
    counts = np.zeros_like(laws)
    for t in range(1, len(emitted)):
        counts[t] = counts[t - 1]
        counts[t, emitted[t - 1]] += 1
    return np.minimum(counts, 3)
