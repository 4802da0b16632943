"""Whether drafting ahead of the verdict pays: measured on whole rounds, with and without it in turn.

It pays where the draft has a device of its own and often guesses right. Where draft and target share one, the target's
steps grow longer than the waits that are saved; then it is off, but for a trial now and then.
"""

from typing import Literal

from gateway.ema import Ema
from gateway.questions import NOT_AHEAD, AheadTerms

AheadMode = Literal["auto", "on", "off"]
Key = tuple[int, int]

NUM_BRANCHES = 16  # a draft begins no more than it has time for
TRIAL_ROUNDS = 16  # of each kind
WORTH = 0.97  # of a round's time without; above it the gain is noise
STAY_ROUNDS, MAX_STAY_ROUNDS = 256, 4096  # until the next trial; doubles while trials fail
UNKNOWN_COSTS = 8  # a round of a kind that was never timed without counts for so many until the next trial


class AheadRecord:
    """What the gateway knows of one pair; shared by its sequences.

    A round's time is compared with that of rounds of the same kind: the same K, about as many sequences.
    """

    def __init__(self, mode: AheadMode = "auto") -> None:
        self._mode = mode
        self.is_on = mode == "on"
        self._without: dict[Key, Ema] = {}
        self._ratios: list[float] = []
        self._is_trial, self._left, self._stay = True, TRIAL_ROUNDS, STAY_ROUNDS

    def saw_round(self, kind: Key, was_on: bool, duration_s: float) -> None:
        """A round and the one before it were both drafted ahead of, or both not."""
        if self._mode != "auto" or was_on != self.is_on:
            return
        self._left -= 1
        if not was_on:
            self._without.setdefault(kind, Ema()).add(duration_s)
        elif kind in self._without:
            self._ratios.append(duration_s / self._without[kind].or_else(duration_s))
        elif not self._is_trial:
            self._left -= UNKNOWN_COSTS
        if self._left <= 0:
            self._turn()

    def _turn(self) -> None:
        """A trial is rounds without, then rounds with; what was on before it stays if it is still worth it."""
        if not self._is_trial:
            self._try(with_it=not self.is_on)
        elif not self.is_on:
            self._try(with_it=True)
        else:
            self._decide()

    def _try(self, with_it: bool) -> None:
        self._is_trial, self.is_on, self._left = True, with_it, TRIAL_ROUNDS
        self._ratios.clear()

    def _decide(self) -> None:
        ratios = self._ratios
        self.is_on = len(ratios) >= TRIAL_ROUNDS // 2 and sum(ratios) / len(ratios) < WORTH
        self._stay = STAY_ROUNDS if self.is_on else min(2 * self._stay, MAX_STAY_ROUNDS)
        self._is_trial, self._left = False, self._stay
        self._ratios = []


class Ahead:
    """One sequence's share in it."""

    def __init__(self, record: AheadRecord) -> None:
        self._record = record
        self._this_is_on = self._last_was_on = False
        self._follows = False

    def terms(self, k: int) -> AheadTerms:
        """What the draft is asked to do while the k tokens of the round that begins are verified."""
        self._this_is_on = self._record.is_on
        return AheadTerms(NUM_BRANCHES, k) if self._this_is_on else NOT_AHEAD

    def interrupted(self) -> None:
        """No round went before the next one."""
        self._follows = False

    def saw_round(self, k: int, num_sequences: int, duration_s: float) -> None:
        """A round with a proposal of k tokens ended."""
        if self._follows and self._last_was_on == self._this_is_on:
            self._record.saw_round((k, num_sequences.bit_length()), self._this_is_on, duration_s)
        self._follows, self._last_was_on = True, self._this_is_on
