"""How sequences take turns at one target: while it verifies the proposals of some, the others are away for theirs."""

from collections.abc import Callable

MISSED = 0.5  # of a step: what a proposal that comes while the target works waits on average beyond whole steps
NUM_REFINEMENTS = 4


def cycle_s(step_s: Callable[[float], float], away_s: float, num_sequences: float, num_rows: int) -> float:
    """Seconds from verdict to verdict of each of num_sequences alike, which spend away_s of it away from the target.

    step_s gives the seconds of a step over that many rows, num_rows the rows of one sequence. A target that is never
    idle serves the sequences in shifts; there are so many shifts that one is back when its turn comes. Whoever misses
    a step waits for the next, so there are two at least, however short the way.
    """
    if num_sequences <= 1:
        return away_s + step_s(num_rows)
    shifts = 2.0
    for _ in range(NUM_REFINEMENTS):
        step = step_s(num_sequences * num_rows / shifts)
        shifts = min(max(1 + MISSED + away_s / step, 2.0), num_sequences)
    step = step_s(num_sequences * num_rows / shifts)
    return max(shifts * step, away_s + step)
