"""What steps and waits cost, measured as the gateway goes: the time model that K is chosen by."""

from bisect import bisect_left

WEIGHT = 0.2  # of a new measurement in a moving average
SLOPE_PER_ROW = 0.03  # assumed growth of a step per row until two row counts were seen
PLAIN_MAX_AGE = 256  # rounds after which the price of a plain step is measured anew


class Ema:
    """A moving average that starts at its first value; None before."""

    def __init__(self) -> None:
        self.value: float | None = None

    def add(self, x: float) -> None:
        """Takes one measurement."""
        self.value = x if self.value is None else self.value + WEIGHT * (x - self.value)

    def or_else(self, default: float) -> float:
        """The average, `default` before the first measurement."""
        return default if self.value is None else self.value


class StepTimes:
    """T_v(rows): seconds of a target step by the number of tokens in it, interpolated between what was seen."""

    def __init__(self) -> None:
        self._rows: list[int] = []
        self._seconds: dict[int, Ema] = {}

    def add(self, rows: int, seconds: float) -> None:
        """Takes one step; counts over 16 are pooled by eighths of a power of two."""
        rows = _bucket(rows)
        if rows not in self._seconds:
            self._rows.insert(bisect_left(self._rows, rows), rows)
            self._seconds[rows] = Ema()
        self._seconds[rows].add(seconds)

    def at(self, rows: int) -> float | None:
        """The expected seconds of a step over `rows` tokens; None before the first step."""
        if not self._rows:
            return None
        right = bisect_left(self._rows, rows)
        if right == len(self._rows) or right == 0:
            return self._beyond(rows, self._rows[-1 if right else 0])
        low, high = self._rows[right - 1], self._rows[right]
        share = (rows - low) / (high - low)
        return (1 - share) * self._known(low) + share * self._known(high)

    def _known(self, rows: int) -> float:
        return self._seconds[rows].or_else(0.0)

    def _beyond(self, rows: int, nearest: int) -> float:
        return self._known(nearest) * (1 + SLOPE_PER_ROW * rows) / (1 + SLOPE_PER_ROW * nearest)


class Costs:
    """One pair of draft and target as the gateway sees it, shared by all sequences that run on the pair.

    `draft_step_s` is t_d; waits beyond the peers' own work time are the rest R of a round.
    """

    def __init__(self) -> None:
        self.steps = StepTimes()
        self.draft_step_s = Ema()
        self._draft_rest_s, self._target_rest_s, self._plain_rest_s = Ema(), Ema(), Ema()
        self.num_rounds = 0
        self._plain_age = PLAIN_MAX_AGE

    def saw_proposal(self, num_tokens: int, draft_s: float, wait_s: float) -> None:
        """A proposal of num_tokens ≥ 1 came after wait_s, of which the draft says it worked draft_s."""
        work_s = min(draft_s, wait_s) if draft_s > 0 else 0.0
        self.draft_step_s.add(work_s / num_tokens)
        self._draft_rest_s.add(wait_s - work_s)

    def saw_verdict(self, rows: int, step_s: float, wait_s: float) -> None:
        """A round's verdict came after wait_s."""
        self.num_rounds += 1
        self._plain_age += 1
        self._saw_step(rows, step_s, wait_s)
        self._target_rest_s.add(max(wait_s - step_s, 0.0))

    def saw_plain(self, rows: int, step_s: float, interval_s: float) -> None:
        """The target alone gave its next token interval_s after the one before."""
        self._plain_age = 0
        self._saw_step(rows, step_s, interval_s)
        self._plain_rest_s.add(max(interval_s - step_s, 0.0))

    def plain_is_old(self) -> bool:
        """Whether the price of a plain step needs measuring."""
        return self._plain_age >= PLAIN_MAX_AGE

    def knows_draft(self) -> bool:
        """Whether a proposal was ever timed."""
        return self.draft_step_s.value is not None

    def proposal_s(self, k: int) -> float:
        """The expected wait for k drafted tokens."""
        return k * self.draft_step_s.or_else(0.0) + self._draft_rest_s.or_else(0.0)

    def plain_s(self, num_sequences: int) -> float | None:
        """Seconds a token where all sequences go without a draft; None before any step was seen."""
        step = self.steps.at(num_sequences)
        return None if step is None else step + self._plain_rest_s.or_else(0.0)

    def round_s(self, k: int, num_sequences: int) -> float | None:
        """Seconds of a round where all sequences speculate with k; None before any step was seen."""
        step = self.steps.at(num_sequences * (k + 1))
        return None if step is None else step + self.proposal_s(k) + self._target_rest_s.or_else(0.0)

    def _saw_step(self, rows: int, step_s: float, wait_s: float) -> None:
        self.steps.add(max(rows, 1), step_s if 0 < step_s <= wait_s else wait_s)


def _bucket(rows: int) -> int:
    shift = max(rows.bit_length() - 4, 0) if rows > 16 else 0
    return rows >> shift << shift
