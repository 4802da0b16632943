"""How likely a verification is to come out this way or that, learnt from how the ones before came out."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from draft_service.drawing import Guesses

NUM_BINS = 8  # of the drafted token's q
PRIOR_STRENGTH = 8.0  # verifications that the first beliefs count for
FIRST_RANK, RANK_DECAY = 0.3, 0.6  # first belief: the correction is the next-best guess, or the one after it, …


@dataclass(frozen=True, slots=True)
class Outcome:
    """The first num_accepted drafted tokens and then `token`."""

    num_accepted: int
    token: int
    probability: float


class Odds:
    """Shared by the sequences of one rule; used on the device thread alone.

    Both tables follow past verdicts only: how often a drafted token of this q was accepted, and how often the
    target's own token was the draft's next-best guess, the one after it, and so on.
    """

    def __init__(self) -> None:
        self._accepted = [PRIOR_STRENGTH * (0.2 + 0.7 * (bin_ + 0.5) / NUM_BINS) for bin_ in range(NUM_BINS)]
        self._drafted = [PRIOR_STRENGTH] * NUM_BINS
        self._ranks: list[float] = []
        self._num_cuts = PRIOR_STRENGTH

    def acceptance(self, q: float) -> float:
        """How likely a drafted token of this q is accepted."""
        return self._accepted[_bin(q)] / self._drafted[_bin(q)]

    def survival(self, positions: Sequence[Guesses]) -> float:
        """How likely all drafted tokens are accepted."""
        return math.prod(self.acceptance(guesses.q) for guesses in positions)

    def cuts(self, positions: Sequence[Guesses]) -> list[Outcome]:
        """The outcomes in which a drafted token is rejected and one of the others stands there, likeliest first."""
        found = [
            each
            for place, guesses in enumerate(positions)
            for each in self._others(
                place, guesses, self.survival(positions[:place]) * (1 - self.acceptance(guesses.q))
            )
        ]
        return sorted(found, key=lambda outcome: -outcome.probability)

    def bonuses(self, num_drafted: int, survival: float, guesses: Guesses) -> list[Outcome]:
        """The outcomes in which all num_drafted tokens are accepted and a bonus token follows, likeliest first."""
        first = self.acceptance(guesses.q)
        others = self._others(num_drafted, guesses, survival * (1 - first))
        return [Outcome(num_drafted, guesses.token, survival * first), *others]

    def saw(self, positions: Sequence[Guesses], num_accepted: int, token: int) -> None:
        """A verdict: learns from every position that it decided about, of those that were guessed at."""
        for guesses in positions[:num_accepted]:
            self._count_acceptance(guesses.q, True)
        if num_accepted >= len(positions):
            return
        guesses = positions[num_accepted]
        self._count_acceptance(guesses.q, token == guesses.token)
        if token != guesses.token:
            self._num_cuts += 1
            if token in guesses.others:
                rank = guesses.others.index(token)
                self._ranks += [self._prior(each) for each in range(len(self._ranks), rank + 1)]
                self._ranks[rank] += 1

    def _others(self, place: int, guesses: Guesses, cut: float) -> list[Outcome]:
        return [
            Outcome(place, token, cut * self._count(rank) / self._num_cuts) for rank, token in enumerate(guesses.others)
        ]

    def _count_acceptance(self, q: float, accepted: bool) -> None:
        self._accepted[_bin(q)] += accepted
        self._drafted[_bin(q)] += 1

    def _count(self, rank: int) -> float:
        return self._ranks[rank] if rank < len(self._ranks) else self._prior(rank)

    def _prior(self, rank: int) -> float:
        return PRIOR_STRENGTH * FIRST_RANK * RANK_DECAY**rank


def _bin(q: float) -> int:
    return min(int(q * NUM_BINS), NUM_BINS - 1)
