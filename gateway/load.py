"""How busy a replica is, others' sequences included: several gateways cannot see each other, but see its steps."""

from gateway.ema import Ema

STEP_WEIGHT = 0.05
RISE, FALL = 0.05, 0.3  # weights: a step with somebody's prompt in it has many rows, and says little about the next
STEPS_TELL_S = 2.0  # steps of our own tell more than a probe for so long


class Load:
    """What verdicts and probes say of one replica; `num_own` is always the sequences of this gateway there."""

    def __init__(self) -> None:
        self._step_s = Ema(STEP_WEIGHT)
        self._num_others = 0.0
        self._step_at = float("-inf")

    @property
    def step_s(self) -> float | None:
        """Seconds of a step of late; None where none was seen."""
        return self._step_s.value

    def num_sequences(self, num_own: int) -> float:
        """Sequences that run or wait there."""
        return num_own + self._num_others

    def saw_step(self, step_s: float, num_rows: int, own_rows: int, num_queued: int, num_own: int, now: float) -> None:
        """A verdict told of a step over num_rows, own_rows of which were its sequence's; others are taken to be alike.

        step_s 0 is a service that does not measure.
        """
        if step_s > 0:
            self._step_s.add(step_s)
        self._step_at = now
        num_others = max(num_rows / max(own_rows, 1) + num_queued - num_own, 0.0)
        self._num_others += (RISE if num_others > self._num_others else FALL) * (num_others - self._num_others)

    def saw_info(self, num_sequences: int, num_own: int, now: float) -> None:
        """A probe told how many sequences run or wait there in all."""
        if now - self._step_at > STEPS_TELL_S:
            self._num_others = float(max(num_sequences - num_own, 0))
