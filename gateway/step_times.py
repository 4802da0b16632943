"""T_v(rows): what a target step costs by the number of tokens in it, learnt from the steps that verdicts tell of."""

from bisect import bisect_left, insort
from collections.abc import Sequence

from gateway.ema import Ema

SLOPE_PER_ROW = 0.03  # assumed growth of a step per row beyond the row counts that were seen
SCALE_WEIGHT = 0.03
LINE_STRENGTH = 8.0  # steps that the straight line through all row counts counts for at each
MEMORY = 128.0  # steps at one row count after which the oldest are forgotten


class StepTimes:
    """A curve that never falls: a step over more rows takes no less (isotonic regression over what was seen).

    A row count that was hardly seen lies near the straight line through the others.

    A machine that turns slower does so for all row counts, also for those that are not seen at present: `_scale`
    follows that at once, the curve's shape slowly.
    """

    def __init__(self) -> None:
        self._rows: list[int] = []
        self._mean: dict[int, float] = {}
        self._weight: dict[int, float] = {}
        self._scale = Ema(SCALE_WEIGHT)
        self._last = (0, 0.0)
        self._curve: list[float] | None = None

    def add(self, rows: int, seconds: float) -> None:
        """Takes one step, once however many sequences tell of it.

        Counts over 16 are pooled by eighths of a power of two.
        """
        if (rows, seconds) == self._last:
            return
        self._last = (rows, seconds)
        rows = _bucket(rows)
        if rows in self._mean:
            self._scale.add(seconds / (self._shape(rows) or seconds))
        else:
            insort(self._rows, rows)
            self._mean[rows] = self._weight[rows] = 0.0
        unscaled = seconds / self._scale.or_else(1.0)
        self._weight[rows] = min(self._weight[rows] + 1.0, MEMORY)
        self._mean[rows] += (unscaled - self._mean[rows]) / self._weight[rows]
        self._curve = None

    def at(self, rows: float) -> float | None:
        """The expected seconds of a step over `rows` tokens; None before the first step."""
        shape = self._shape(rows)
        return None if shape is None else shape * self._scale.or_else(1.0)

    def _shape(self, rows: float) -> float | None:
        if not self._rows:
            return None
        curve, right = self._fitted(), bisect_left(self._rows, rows)
        if right == len(self._rows) or right == 0:
            nearest = -1 if right else 0
            return curve[nearest] * (1 + SLOPE_PER_ROW * rows) / (1 + SLOPE_PER_ROW * self._rows[nearest])
        low, high = self._rows[right - 1], self._rows[right]
        share = (rows - low) / (high - low)
        return (1 - share) * curve[right - 1] + share * curve[right]

    def _fitted(self) -> list[float]:
        if self._curve is None:
            weights = [self._weight[r] for r in self._rows]
            means = [self._mean[r] for r in self._rows]
            line = straight(self._rows, means, weights)
            near = [
                (m * w + y * LINE_STRENGTH) / (w + LINE_STRENGTH) for m, w, y in zip(means, weights, line, strict=True)
            ]
            self._curve = isotonic(near, [w + LINE_STRENGTH for w in weights])
        return self._curve


def straight(xs: Sequence[float], ys: Sequence[float], weights: Sequence[float]) -> list[float]:
    """The values at xs of the straight, never falling line nearest to ys by weighted squares."""
    total = sum(weights)
    mean_x = sum(x * w for x, w in zip(xs, weights, strict=True)) / total
    mean_y = sum(y * w for y, w in zip(ys, weights, strict=True)) / total
    spread = sum(w * (x - mean_x) ** 2 for x, w in zip(xs, weights, strict=True))
    slope = sum(w * (x - mean_x) * (y - mean_y) for x, y, w in zip(xs, ys, weights, strict=True)) / (spread or 1.0)
    return [mean_y + max(slope, 0.0) * (x - mean_x) for x in xs]


def isotonic(values: list[float], weights: list[float]) -> list[float]:
    """The non-decreasing values nearest to `values` by weighted squares: neighbours in the wrong order are pooled."""
    pools: list[tuple[float, float, int]] = []
    for pool in zip(values, weights, [1] * len(values), strict=True):
        while pools and pools[-1][0] > pool[0]:
            pool = _pooled(pools.pop(), pool)
        pools.append(pool)
    return [value for value, _, count in pools for _ in range(count)]


def _pooled(a: tuple[float, float, int], b: tuple[float, float, int]) -> tuple[float, float, int]:
    weight = a[1] + b[1]
    return (a[0] * a[1] + b[0] * b[1]) / weight, weight, a[2] + b[2]


def _bucket(rows: int) -> int:
    shift = max(rows.bit_length() - 4, 0) if rows > 16 else 0
    return rows >> shift << shift
