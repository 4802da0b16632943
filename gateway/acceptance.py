"""How likely a drafted token is to be accepted, by its position in the proposal."""

from collections.abc import Sequence

PRIOR, PRIOR_STRENGTH = 0.6, 4.0  # before anything was seen, and how many tokens that counts for
NEIGHBOUR_STRENGTH = 12.0  # tokens that the position before counts for: drafts fade slowly along a proposal
SHARED_STRENGTH = 16.0  # tokens that the shared table counts for at the start of a request
FORGET = 0.975  # of a request's own counts, a proposal: K follows the text
SHARED_FORGET = 0.995


class _Counts:
    """Fading counts by position of what was seen and what of it was accepted."""

    def __init__(self, forget: float) -> None:
        self._forget = forget
        self.seen: list[float] = []
        self.accepted: list[float] = []

    def add(self, credits: Sequence[float]) -> None:
        self.seen = [n * self._forget for n in self.seen]
        self.accepted = [n * self._forget for n in self.accepted]
        missing = [0.0] * (len(credits) - len(self.seen))
        self.seen.extend(missing)
        self.accepted.extend(missing)
        for position, credit in enumerate(credits):
            self.seen[position] += 1.0
            self.accepted[position] += credit

    def rate(self, position: int, prior: float, strength: float) -> float:
        if position >= len(self.seen):
            return prior
        return (strength * prior + self.accepted[position]) / (strength + self.seen[position])


class SharedAcceptance:
    """What past requests of one kind (replica, rule, greedy or not) saw: the prior of the next.

    A position that is little known, or no longer, is taken to be like the one before.
    """

    def __init__(self, prior: float = PRIOR) -> None:
        self._prior = prior
        self._counts = _Counts(SHARED_FORGET)
        self._rates: list[float] = []

    def at(self, position: int) -> float:
        """P(accepted | all before it accepted)."""
        return self._rates[min(position, len(self._rates) - 1)] if self._rates else self._prior

    def saw(self, credits: Sequence[float]) -> None:
        """See Acceptance.saw."""
        self._counts.add(credits)
        rate, strength = self._prior, PRIOR_STRENGTH
        self._rates.clear()
        for position in range(len(self._counts.seen)):
            rate, strength = self._counts.rate(position, rate, strength), NEIGHBOUR_STRENGTH
            self._rates.append(rate)


class Acceptance:
    """The table of one sequence."""

    def __init__(self, shared: SharedAcceptance) -> None:
        self._shared = shared
        self._counts = _Counts(FORGET)

    def saw(self, credits: Sequence[float]) -> None:
        """Takes the outcomes of a proposal's tokens in order, the first below 1 being the last that counts.

        1 is accepted, 0 rejected; a shadow's token may be scored in between.
        """
        self._counts.add(credits)
        self._shared.saw(credits)

    def at(self, position: int) -> float:
        """P(accepted | all before it accepted)."""
        return self._counts.rate(position, self._shared.at(position), SHARED_STRENGTH)
