"""How sure a draft's own word is: how often a token to which it gave so much probability was accepted."""

import math
from collections.abc import Sequence

NUM_BINS = 8  # of a drafted token's q
PRIOR_STRENGTH = 8.0  # tokens that the first belief of a bin counts for
FORGET = 0.998  # of what was counted, a token


class Confidence:
    """Shared by the sequences of one rule; used on the device thread alone. It follows past verdicts only."""

    def __init__(self) -> None:
        self._accepted = [PRIOR_STRENGTH * (0.2 + 0.7 * (bin_ + 0.5) / NUM_BINS) for bin_ in range(NUM_BINS)]
        self._seen = [PRIOR_STRENGTH] * NUM_BINS
        self._all_accepted, self._all_seen = sum(self._accepted) / NUM_BINS, PRIOR_STRENGTH

    def acceptance(self, q: float) -> float:
        """How likely a drafted token of this q is accepted."""
        return self._accepted[_bin(q)] / self._seen[_bin(q)]

    def survival(self, qs: Sequence[float]) -> float:
        """How likely drafted tokens of these q are accepted one and all."""
        return math.prod(self.acceptance(q) for q in qs)

    def outlook(self, qs: Sequence[float]) -> float:
        """How likely they are, and the token after them, of which nothing is known yet."""
        return self.survival(qs) * self._all_accepted / self._all_seen

    def says_stop(self, qs: Sequence[float], min_survival: float) -> bool:
        """Whether the token after those of these q is of less use than that; 0 asks nothing, and needs no q."""
        return min_survival > 0 and self.outlook(qs) < min_survival

    def saw(self, q: float, accepted: bool) -> None:
        """A token of this q was verified."""
        bin_ = _bin(q)
        self._accepted[bin_] = FORGET * self._accepted[bin_] + accepted
        self._seen[bin_] = FORGET * self._seen[bin_] + 1
        self._all_accepted = FORGET * self._all_accepted + accepted
        self._all_seen = FORGET * self._all_seen + 1


def _bin(q: float) -> int:
    return min(int(q * NUM_BINS), NUM_BINS - 1)
