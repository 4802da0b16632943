"""How likely a verification is to come out this way or that, learnt from how the ones before came out."""

from collections.abc import Sequence
from dataclasses import dataclass

from draft_service.confidence import Confidence
from draft_service.drawing import Guesses

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

    It follows past verdicts only: how often the token after an accepted proposal was the draft's favourite there, and
    the target's own token its next-best guess, the one after it, and so on. `confidence`, how often a drafted token is
    accepted, is the session's to teach.
    """

    def __init__(self, confidence: Confidence) -> None:
        self._confidence, self._favourites = confidence, Confidence()
        self._ranks: list[float] = []
        self._num_cuts = PRIOR_STRENGTH

    def survival(self, positions: Sequence[Guesses]) -> float:
        """How likely all drafted tokens are accepted."""
        return self._confidence.survival([guesses.q for guesses in positions])

    def cuts(self, positions: Sequence[Guesses]) -> list[Outcome]:
        """The outcomes in which a drafted token is rejected and one of the others stands there, likeliest first."""
        found = [
            each
            for place, guesses in enumerate(positions)
            for each in self._others(
                place, guesses, self.survival(positions[:place]) * (1 - self._confidence.acceptance(guesses.q))
            )
        ]
        return sorted(found, key=lambda outcome: -outcome.probability)

    def bonuses(self, num_drafted: int, survival: float, guesses: Guesses) -> list[Outcome]:
        """The outcomes in which all num_drafted tokens are accepted and a bonus token follows, likeliest first."""
        first = self._favourites.acceptance(guesses.q)
        others = self._others(num_drafted, guesses, survival * (1 - first))
        return [Outcome(num_drafted, guesses.token, survival * first), *others]

    def saw(self, positions: Sequence[Guesses], num_drafted: int, num_accepted: int, token: int) -> None:
        """A verdict on the first num_drafted positions; learns from where it ended, if that was guessed at."""
        if num_accepted >= len(positions):
            return
        guesses = positions[num_accepted]
        if num_accepted == num_drafted:
            self._favourites.saw(guesses.q, token == guesses.token)
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

    def _count(self, rank: int) -> float:
        return self._ranks[rank] if rank < len(self._ranks) else self._prior(rank)

    def _prior(self, rank: int) -> float:
        return PRIOR_STRENGTH * FIRST_RANK * RANK_DECAY**rank
