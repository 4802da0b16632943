"""Whether speculation pays at all: the pair's whole pace with and without the draft, in turn, load by load.

The cost model knows the steps that it saw. It does not know what drafting does to everyone else's steps where draft
and target share cores, and what else it leaves out; there a gain that it promises can be a loss. So a little time is
spent without the draft, and what a token costs then is held against what it costs beside the draft.
"""

from dataclasses import dataclass, field
from math import log, log2, sqrt
from statistics import median

ON_TOKENS, OFF_TOKENS = 48, 16  # tokens a sequence of a trial's windows where one runs; of n sequences 1/√n of it
MIN_ON_TOKENS, MIN_OFF_TOKENS = 12, 6
SETTLE_TOKENS = 4  # tokens a sequence until all follow a window's turn
BACK_TOKENS = 10  # the same where they first use up what they may go on for without the draft
BRING_TOKENS = 16  # the same where the draft has to be brought in first
MIN_FIRST_TRIALS, MAX_FIRST_TRIALS = 3, 5  # at once; the device may have stood still in one, so one decides nothing
REST_TOKENS, MAX_REST_TOKENS = 256, 4096  # a sequence, until the next trial; doubles
LONG_REST_TOKENS = 1024  # the least where the draft loses, or clearly wins: there a trial costs more
NUM_SAMPLES = 5  # trials of late, whose median counts
NOISE = 1.0  # standard deviation of one token's cost in a round, as a share: how many are accepted is luck
DEVICE_NOISE = 0.03  # of a whole trial's: the machine serves others too
SURE_LOSS, SURE_GAIN, CLEAR_GAIN = 1.0, -1.5, -4.0  # standard deviations; between the first two it stays on
MIN_SPECULATED = 0.05  # of a trial's tokens; with less it says nothing
BETTER, NUM_ASKING = 1.2, 8  # promises that are so much higher, so often, bring the next trial forward
MAX_AGE_S = 60.0  # of a trial that nothing was added to; then it begins anew


@dataclass
class _Window:
    """Tokens and the seconds that their sequences took for them; of them the tokens of rounds, and what those would
    be without the draft if the model were right.
    """

    num_tokens: float = 0.0
    seconds: float = 0.0
    num_speculated: float = 0.0
    num_without: float = 0.0

    def saw(self, num_tokens: int, seconds: float, gain: float | None) -> None:
        self.num_tokens += num_tokens
        self.seconds += seconds
        if gain is not None:
            self.num_speculated += num_tokens
            self.num_without += num_tokens / max(gain, 0.1)

    def token_s(self) -> float:
        return self.seconds / max(self.num_tokens, 1.0)


class LoadCalibration:
    """At one load: a trial of three windows (on, off, on), then rest in the better way. `epoch` counts windows."""

    def __init__(self) -> None:
        self.epoch = 0
        self._window, self._progress = 1, 0.0  # 0 is rest
        self._on, self._off = _Window(), _Window()
        self._costs: list[float] = []  # of a token, log of with over without
        self._noise = 0.0  # of one of them
        self._rest, self._has_rested, self._loses = REST_TOKENS, False, False
        self._promise, self._num_asking = 0.0, 0
        self._heeded = 0.0  # the promise that brought this trial forward
        self._seen_at = 0.0

    @property
    def is_off(self) -> bool:
        """Whether all sequences go without rounds of the draft service."""
        return self._window == 2 or (self._window == 0 and self._loses)

    @property
    def is_silent(self) -> bool:
        """Whether the draft should do nothing whatever, that the pace without it be seen."""
        return self._window == 2

    def promises(self, gain: float) -> None:
        """A sequence that has to go without is promised `gain` by the model; far more than at the trial is news."""
        if self._window == 0 and self._loses and gain > BETTER * self._promise:
            self._num_asking += 1
            if self._num_asking >= NUM_ASKING:
                self._costs.clear()
                self._turn()
                self._heeded = gain

    def saw(self, num_sequences: int, num_tokens: int, seconds: float, gain: float | None, now: float = 0.0) -> None:
        """One of num_sequences got num_tokens after `seconds`, in a round that promised `gain`; None without."""
        if self._window > 0 and now > self._seen_at + MAX_AGE_S:
            self._begin_trial()
        self._seen_at = now
        self._progress += num_tokens / num_sequences
        if self._window > 0 and self._progress > self._settle():
            (self._off if self._window == 2 else self._on).saw(num_tokens, seconds, gain)
        if self._progress >= self._length(num_sequences):
            self._turn()

    def _length(self, num_sequences: int) -> float:
        if self._window == 0:
            return self._rest
        most, least = (OFF_TOKENS, MIN_OFF_TOKENS) if self._window == 2 else (ON_TOKENS, MIN_ON_TOKENS)
        return self._settle() + max(most / sqrt(num_sequences), least)

    def _settle(self) -> float:
        if self._window == 1 and self._loses:
            return BRING_TOKENS
        return BACK_TOKENS if self._window == 3 else SETTLE_TOKENS

    def _turn(self) -> None:
        if self._window == 0:
            self._heeded = 0.0
            self._begin_trial()
            return
        self.epoch += 1
        self._progress = 0.0
        self._window = (self._window + 1) % 4
        if self._window == 0:
            self._judge(self._on, self._off)

    def _begin_trial(self) -> None:
        self.epoch += 1
        self._window, self._progress, self._num_asking = 1, 0.0, 0
        self._on, self._off = _Window(), _Window()

    def _judge(self, on: _Window, off: _Window) -> None:
        says_something = on.seconds and off.seconds and on.num_speculated > MIN_SPECULATED * on.num_tokens
        if says_something:
            self._costs = [*self._costs, log(on.token_s() / off.token_s())][-NUM_SAMPLES:]
            self._noise = DEVICE_NOISE + NOISE * sqrt(on.num_speculated) / on.num_tokens
            self._promise = max(on.num_speculated / on.num_without, self._heeded)
        if says_something and self._is_unsure():
            self._begin_trial()
            return
        evidence = self._evidence()
        self._loses = evidence > SURE_LOSS
        if self._costs:
            self._rest = min(2 * self._rest, MAX_REST_TOKENS) if self._has_rested else self._rest
            self._has_rested = True
        if self._loses or evidence < CLEAR_GAIN:
            self._rest = max(self._rest, LONG_REST_TOKENS)

    def _is_unsure(self) -> bool:
        num = len(self._costs)
        if num >= MAX_FIRST_TRIALS:
            return False
        return num < MIN_FIRST_TRIALS or SURE_GAIN < self._evidence() < -SURE_GAIN

    def _evidence(self) -> float:
        """That the draft loses, in standard deviations."""
        if not self._costs:
            return 0.0
        return median(self._costs) * sqrt(len(self._costs)) / self._noise


@dataclass
class Calibration:
    """Of one pair of draft and target; shared by its sequences."""

    loads: dict[int, LoadCalibration] = field(default_factory=dict)

    def at(self, num_sequences: int) -> LoadCalibration:
        """Loads count as one that lie nearest to the same power of two: 1, 2, 3 to 5, 6 to 11, 12 to 22, and so on."""
        return self.loads.setdefault(round(log2(num_sequences)), LoadCalibration())


class Calibrating:
    """One sequence's share in it: the time from verdict to verdict."""

    def __init__(self, calibration: Calibration) -> None:
        self._calibration = calibration
        self._since: tuple[LoadCalibration, int, float] | None = None
        self._gain: float | None = None

    def round_begins(self, gain: float) -> None:
        """The draft service is asked for a proposal, of which the model promises `gain`."""
        self._gain = gain

    def saw_verdict(self, num_sequences: int, num_tokens: int, now: float) -> None:
        """A verdict of num_tokens came at `now`."""
        load = self._calibration.at(num_sequences)
        if self._since is not None:
            before, epoch, since = self._since
            if before is load and epoch == load.epoch:
                load.saw(num_sequences, num_tokens, now - since, self._gain, now)
        self._since, self._gain = (load, load.epoch, now), None
