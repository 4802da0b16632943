"""How long a round takes where the draft may end its proposal early."""

from collections.abc import Callable


def expected_s(goes_on: Callable[[int], float], round_s: Callable[[int], float], limit: int) -> list[float]:
    """Seconds of a round of at most 1 … limit drafted tokens, on average.

    goes_on(j): how likely another token follows the first j where it may; round_s(k): seconds of a round of k.
    """
    expected, ended_s, still = [], 0.0, 1.0
    for k in range(1, limit + 1):
        expected.append(ended_s + still * round_s(k))
        share = goes_on(k)
        ended_s += still * (1 - share) * round_s(k)
        still *= share
    return expected
