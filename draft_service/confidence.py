"""How sure a draft's own word is: how often a token to which it gave so much probability was accepted."""

import math
from collections.abc import Sequence

NUM_BINS = 8  # of a drafted token's q
PRIOR_STRENGTH = 8.0  # tokens that the first belief of a bin counts for
FORGET = 0.998  # of a bin's counts, a token of its own


class Confidence:
    """Shared by the sequences of one rule; used on the device thread alone. It follows past verdicts only."""

    def __init__(self) -> None:
        self._accepted = [PRIOR_STRENGTH * (0.2 + 0.7 * (bin_ + 0.5) / NUM_BINS) for bin_ in range(NUM_BINS)]
        self._seen = [PRIOR_STRENGTH] * NUM_BINS

    def acceptance(self, q: float) -> float:
        """How likely a drafted token of this q is accepted."""
        return self._accepted[_bin(q)] / self._seen[_bin(q)]

    def survival(self, qs: Sequence[float]) -> float:
        """How likely drafted tokens of these q are accepted one and all."""
        return math.prod(self.acceptance(q) for q in qs)

    def outlook(self, qs: Sequence[float]) -> float:
        """How likely they are, and the token after them, of which nothing is known yet."""
        return self.survival(qs) * sum(self._accepted) / sum(self._seen)

    def saw(self, q: float, accepted: bool) -> None:
        """A token of this q was verified."""
        bin_ = _bin(q)
        self._accepted[bin_] = FORGET * self._accepted[bin_] + accepted
        self._seen[bin_] = FORGET * self._seen[bin_] + 1


def _bin(q: float) -> int:
    return min(int(q * NUM_BINS), NUM_BINS - 1)
