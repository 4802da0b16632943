"""What steps and waits cost, measured as the gateway goes: the time model that K is chosen by."""

from collections import deque
from math import ceil

from forerun.cost.shifts import cycle_s
from gateway.ema import Ema
from gateway.step_times import StepTimes

PLAIN_MAX_AGE = 256  # rounds after which the price of a plain step is measured anew
NUM_TRIPS = 8  # of late, the shortest of which counts: on the others the machine was busy, or the connection new
CACHE_AGE = 8  # measurements for which a round's price is good


class Costs:
    """One pair of draft and target as the gateway sees it, shared by all sequences that run on the pair.

    `draft_step_s` is t_d; waits beyond the peers' own work time are the rest R of a round.
    """

    def __init__(self) -> None:
        self.steps = StepTimes()
        self.draft_step_s = Ema()
        self._draft_rest_s, self._target_rest_s, self._plain_rest_s = Ema(), Ema(), Ema()
        self._waited_for = Ema()
        self._trips_s = deque[float](maxlen=NUM_TRIPS)
        self._plain_age = PLAIN_MAX_AGE
        self._rounds_s: dict[tuple[int, int], float] = {}
        self._cached_until = 0

    def saw_proposal(self, num_tokens: int, draft_s: float, wait_s: float) -> None:
        """A proposal of num_tokens ≥ 1 came after wait_s, of which the draft says it worked draft_s."""
        work_s = min(draft_s, wait_s) if draft_s > 0 else 0.0
        self.draft_step_s.add(work_s / num_tokens)
        self._draft_rest_s.add(wait_s - work_s)
        self._waited_for.add(1.0)
        self._measured()

    def saw_readiness(self, num_tokens: int, wait_s: float) -> None:
        """A proposal that was drafted ahead came after wait_s, which may be nothing."""
        self._waited_for.add(min(wait_s / max(self.proposal_s(num_tokens), 1e-9), 1.0))

    def saw_verdict(self, rows: int, step_s: float, wait_s: float, queued_s: float = 0.0) -> None:
        """A round's verdict came after wait_s, for queued_s of which the target was busy with others."""
        self._plain_age += 1
        self._saw_step(rows, step_s, wait_s)
        self._target_rest_s.add(max(wait_s - step_s - queued_s, 0.0))
        self.saw_trip(step_s, wait_s, queued_s)

    def saw_trip(self, step_s: float, wait_s: float, queued_s: float) -> None:
        """A verdict that was not under way already came wait_s after it was asked for; the rest is the way."""
        self._trips_s.append(max(wait_s - step_s - queued_s, 0.0))

    def num_under_way(self, num_sequences: int) -> int:
        """Tokens that the target alone gives while word goes to it and its answer comes; 0 where nothing is known."""
        plain_s = self.plain_s(num_sequences)
        return ceil(min(self._trips_s) / plain_s) if plain_s and self._trips_s else 0

    def saw_plain(self, rows: int, step_s: float, interval_s: float) -> None:
        """The target alone gave its next token, which came interval_s after the one before.

        Where several come in one burst all intervals but the first are nothing: they are the way's, not the step's.
        """
        self._plain_age = 0
        self._saw_step(rows, step_s, max(interval_s, step_s))
        self._plain_rest_s.add(max(interval_s - step_s, 0.0))

    def claims_measurement(self) -> bool:
        """Whether the price of a plain step needs measuring; whoever hears so does it, and no one else meanwhile."""
        is_due = self._plain_age >= PLAIN_MAX_AGE
        if is_due:
            self._plain_age = 0
        return is_due

    def knows_draft(self) -> bool:
        """Whether a proposal was ever timed."""
        return self.draft_step_s.value is not None

    def proposal_s(self, k: float) -> float:
        """The expected wait for k drafted tokens."""
        return k * self.draft_step_s.or_else(0.0) + self._draft_rest_s.or_else(0.0)

    def wait_s(self, k: int) -> float:
        """The same where some proposals were drafted ahead and are there already."""
        return self.proposal_s(k) * self._waited_for.or_else(1.0)

    def plain_s(self, num_sequences: int) -> float | None:
        """Seconds a token where all sequences go without a draft; None before any step was seen."""
        step = self.steps.at(num_sequences)
        return None if step is None else step + self._plain_rest_s.or_else(0.0)

    def round_s(self, k: int, num_sequences: int) -> float | None:
        """Seconds of a round where all sequences speculate with k; None before any step was seen."""
        if self.steps.at(1) is None:
            return None
        key = (k, num_sequences)
        if key not in self._rounds_s:
            self._rounds_s[key] = self._priced(self.wait_s(k), k, num_sequences)
        return self._rounds_s[key]

    def own_round_s(self, k: int, num_sequences: int) -> float:
        """Seconds of a round whose k tokens the gateway has by itself; 0 before any step was seen."""
        key = (-1 - k, num_sequences)
        if key not in self._rounds_s:
            self._rounds_s[key] = self._priced(0.0, k, num_sequences)
        return self._rounds_s[key]

    def _priced(self, draft_s: float, k: int, num_sequences: int) -> float:
        away_s = draft_s + self._target_rest_s.or_else(0.0)
        return cycle_s(lambda rows: self.steps.at(rows) or 0.0, away_s, num_sequences, k + 1)

    def _saw_step(self, rows: int, step_s: float, wait_s: float) -> None:
        self.steps.add(max(rows, 1), step_s if 0 < step_s <= wait_s else wait_s)
        self._measured()

    def _measured(self) -> None:
        self._cached_until -= 1
        if self._cached_until < 0:
            self._cached_until = CACHE_AGE
            self._rounds_s.clear()
