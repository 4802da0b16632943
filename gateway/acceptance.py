"""How likely a drafted token is to be accepted, by its position in the proposal."""

from collections.abc import Sequence

PRIOR = 0.6  # before anything was seen
PRIOR_STRENGTH = 4.0  # rounds that the shared table counts for at the start of a request
FORGET = 0.97  # a request's own counts fade, so that K follows the text
SHARED_WEIGHT = 0.03


class SharedAcceptance:
    """What past requests of one kind (replica, rule, greedy or not) saw: the prior of the next."""

    def __init__(self) -> None:
        self._rates: list[float] = []

    def at(self, position: int) -> float:
        """P(accepted | all before it accepted); an unseen position is taken to be like the last one seen."""
        if not self._rates:
            return PRIOR
        return self._rates[min(position, len(self._rates) - 1)]

    def saw(self, position: int, credit: float) -> None:
        """One drafted token was accepted (1), rejected (0), or scored in between."""
        while len(self._rates) <= position:
            self._rates.append(self.at(len(self._rates)))
        self._rates[position] += SHARED_WEIGHT * (credit - self._rates[position])


class Acceptance:
    """The table of one sequence."""

    def __init__(self, shared: SharedAcceptance) -> None:
        self._shared = shared
        self._seen: list[float] = []
        self._accepted: list[float] = []

    def saw(self, credits: Sequence[float]) -> None:
        """Takes the outcomes of a proposal's tokens in order, the first below 1 being the last that counts."""
        self._seen = [n * FORGET for n in self._seen]
        self._accepted = [n * FORGET for n in self._accepted]
        for position, credit in enumerate(credits):
            self._add(position, credit)
            self._shared.saw(position, credit)

    def at(self, position: int) -> float:
        """P(accepted | all before it accepted)."""
        seen = self._seen[position] if position < len(self._seen) else 0.0
        accepted = self._accepted[position] if position < len(self._seen) else 0.0
        return (PRIOR_STRENGTH * self._shared.at(position) + accepted) / (PRIOR_STRENGTH + seen)

    def _add(self, position: int, credit: float) -> None:
        if len(self._seen) <= position:
            self._seen.append(0.0)
            self._accepted.append(0.0)
        self._seen[position] += 1.0
        self._accepted[position] += credit
