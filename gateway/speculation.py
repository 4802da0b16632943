"""Chooses K: how far the draft runs ahead, and how far the target may go on alone."""

from forerun.cost.pace import Pace, best_pace
from gateway.acceptance import Acceptance
from gateway.costs import Costs
from gateway.lengths import expected_s
from gateway.pair import NUM_FIRST_SHADOWS, SHADOW_K, PairRecord

MAX_K = 16
GRANT, MAX_GRANT = 16, 512  # renewed when half is used, so that the target never waits for the gateway
SPARE_TOKENS = 2  # of that half, for a renewal that is late
FAR = 2  # tokens under way at once from where on a text begins with a grant
MEASURE_GRANT = 3  # tokens alone, to learn what a plain step costs
SILENT_GRANT = 6  # while the pair goes without its draft for a moment, to see what that is like
MIN_GAIN, STAY_GAIN = 1.02, 0.98  # between them a gain is noise: whoever speculates goes on, whoever does not waits
TRIAL_ROUNDS = 4
TRIAL_SHARE, FIRST_TRIAL_WORTH = 0.002, 0.6
TRIAL_OVERHEAD = 0.3  # tokens that a change between the two ways costs
SHADOW_TOKENS, MAX_SHADOW_TOKENS = 32, 256  # between shadow proposals once a few were scored
SCOUT_EVERY = 8  # of the sequences that go without the draft one brings it in all the same: it may have got better
MIN_PAUSE, LATE_PAUSE, MAX_PAUSE = 4, 16, 256
MIN_MIN_SURVIVAL, MAX_MIN_SURVIVAL = 0.001, 0.9
MIN_DEADLINE_S, UNKNOWN_DEADLINE_S, MAX_DEADLINE_S = 0.05, 0.25, 2.0  # however slow a draft has been


def full_grant(costs: Costs, num_sequences: int, least: int = GRANT) -> int:
    """Tokens that a target goes on for where no round is in sight: half of it lasts until a renewal has come."""
    return min(max(least, 2 * (costs.num_under_way(num_sequences) + SPARE_TOKENS)), MAX_GRANT)


class Speculation:
    """The choices of one sequence. `fixed_k` None is `auto`.

    K depends on times, on past verdicts and on scored shadow proposals alone, never on a token of a proposal that
    is still to be verified (docs/protocol.md, invariant 3).
    """

    def __init__(self, pair: PairRecord, kind: str, fixed_k: int | None, max_k: int = MAX_K) -> None:
        self._pair, self._costs = pair, pair.costs
        self._acceptance, self._lengths = Acceptance(pair.acceptance_of(kind)), Acceptance(pair.lengths_of(kind))
        self._is_scout = pair.num_sequences % SCOUT_EVERY == 0
        pair.num_sequences += 1
        self._fixed_k, self._max_k = fixed_k, max_k
        self._pause = MIN_PAUSE
        self._alone_until = 0
        self._next_shadow, self._shadow_gap, self._num_shadows = 0, SHADOW_TOKENS, 0
        self._speculating, self._trial_rounds, self._num_to_measure = False, 0, 0
        self.gain = 0.0  # that the cost model promises of the K that was chosen last

    def choose(self, num_generated: int, num_sequences: int, limit: int) -> int:
        """K of the next round, at most `limit`; 0 lets the target go on alone."""
        if self.rests(num_generated) or limit <= 0:
            return 0
        if self._fixed_k is not None:
            return min(self._fixed_k, limit)
        if not self._costs.knows_draft() or self._starts_measuring():
            return 0
        limit, load = min(limit, self._max_k), self._pair.calibration.at(num_sequences)
        if load.is_off:
            promised = self._best(num_sequences, limit).gain
            if promised >= MIN_GAIN:
                load.promises(promised)
            return 0
        return self._adaptive(num_sequences, limit)

    def rests(self, num_generated: int) -> bool:
        """Whether no round may come yet, for the draft was late or had nothing to say."""
        return num_generated < self._alone_until

    def grant(self, draft_is_ready: bool, num_sequences: int) -> int:
        """Tokens that the target may produce alone; few where a round is likely to follow soon."""
        soon = self._fixed_k is not None or self._num_to_measure > 0
        if draft_is_ready and soon:
            return MEASURE_GRANT
        ends_soon = draft_is_ready and self._pair.calibration.at(num_sequences).is_silent
        return full_grant(self._costs, num_sequences, SILENT_GRANT if ends_soon else GRANT)

    def brings_draft(self, num_sequences: int) -> bool:
        """Whether a draft that is not there yet should read the text: that costs something too."""
        load = self._pair.calibration.at(num_sequences)
        return self._fixed_k is not None or not load.is_off or (self._is_scout and not load.is_silent)

    def first_grant(self, has_draft: bool, num_sequences: int) -> int:
        """Tokens that may follow the first one alone: none where a draft may soon propose, but for a far target."""
        is_off = self._fixed_k is None and self._pair.calibration.at(num_sequences).is_off
        if has_draft and not is_off and (self._fixed_k is not None or self._costs.num_under_way(num_sequences) < FAR):
            return 0
        return self.grant(False, num_sequences)

    def deadline_s(self, k: int, num_behind: int) -> float:
        """How long a round waits for up to k tokens of a draft that first has to read num_behind others.

        Most end earlier; one that goes all the way is to be heard as well.
        """
        if not self._costs.knows_draft():
            return UNKNOWN_DEADLINE_S
        usual = expected_s(self._goes_on, float, k)[-1] if k else 0.0
        usual_s, whole_s = (self._costs.proposal_s(num + num_behind) for num in (usual, k))
        return min(max(MIN_DEADLINE_S, 4 * usual_s, 2 * whole_s), MAX_DEADLINE_S)

    def min_survival(self, k: int, num_sequences: int) -> float:
        """The chance of being of use below which the draft is not to go on to another token of k: the λ rule.

        0, which asks for all k, only where K is fixed: else a draft learns how sure it may be.
        """
        plain_s = self._costs.plain_s(num_sequences)
        if self._fixed_k is not None:
            return 0.0
        if not plain_s or k < 2:
            return MIN_MIN_SURVIVAL
        first_s, last_s = (self._costs.round_s(each, num_sequences) or 0.0 for each in (1, k))
        token_s = max(last_s - first_s, 0.0) / (k - 1)
        return min(max(max(self.gain, 1.0) * token_s / plain_s, MIN_MIN_SURVIVAL), MAX_MIN_SURVIVAL)

    def shadow_k(self, num_generated: int, num_sequences: int) -> int:
        """K of a shadow proposal if one is due and can be paid for, else 0; it is then asked for."""
        is_due = self._fixed_k is None and num_generated >= self._next_shadow
        if not is_due or self._pair.calibration.at(num_sequences).is_silent or not self._pair.pays_for_shadow():
            return 0
        return min(SHADOW_K, self._max_k)

    def saw_shadow(self, num_generated: int, credits: list[float], k: int = 0, num_drafted: int = 0) -> None:
        """A proposal of num_drafted of k tokens that nobody waited for was scored against what the target emitted."""
        self._saw(credits, k, num_drafted)
        self._num_shadows += 1
        if self._num_shadows < NUM_FIRST_SHADOWS:
            self._next_shadow = num_generated
            return
        self._next_shadow = num_generated + self._shadow_gap
        self._shadow_gap = min(2 * self._shadow_gap, MAX_SHADOW_TOKENS)

    def saw_round(self, k: int, num_drafted: int, num_accepted: int, num_generated: int) -> None:
        """A round of K = k was verified; tokens that were asked for and not proposed count as not accepted."""
        self._saw([1.0] * num_accepted + [0.0] * (num_accepted < k), k, num_drafted)
        self._pair.num_alone = 0
        self._trial_rounds = max(self._trial_rounds - 1, 0)
        if num_drafted == 0:
            self._rest(num_generated)
        else:
            self._pause = MIN_PAUSE

    def saw_alone(self, num_tokens: int, device_s: float = 0.0) -> None:
        """The target committed tokens under a grant, in device_s of its time."""
        self._pair.num_alone += num_tokens
        self._pair.saves_for_shadows(device_s)
        self._num_to_measure = max(self._num_to_measure - num_tokens, 0)

    def saw_lateness(self, num_generated: int) -> None:
        """A round waited in vain: that cost more than a token, so the pause is long from the first time on."""
        self._pause = max(self._pause, LATE_PAUSE)
        self._rest(num_generated)

    def _saw(self, credits: list[float], k: int, num_drafted: int) -> None:
        """Both tables learn from the same proposals: tokens by one are divided by times by the other."""
        self._acceptance.saw(credits)
        self._lengths.saw([1.0] * (num_drafted - 1) + [0.0] * (0 < num_drafted < k))

    def _rest(self, num_generated: int) -> None:
        """No round for a while, twice as long each time in a row: the draft was late or had nothing to say."""
        self._alone_until = num_generated + self._pause
        self._pause = min(2 * self._pause, MAX_PAUSE)

    def _adaptive(self, num_sequences: int, limit: int) -> int:
        pace = self._best(num_sequences, limit)
        self.gain = pace.gain
        if self._trial_rounds > 0 or pace.gain >= (STAY_GAIN if self._speculating else MIN_GAIN):
            self._speculating = True
            return pace.k
        if self._speculating:
            self._speculating, self._next_shadow = False, 0
        if self._trial_is_due(pace):
            self._pair.was_tried, self._pair.num_alone, self._trial_rounds = True, 0, TRIAL_ROUNDS
            return pace.k
        return 0

    def is_measuring(self) -> bool:
        """Whether this sequence goes alone for the price of a plain step, which one does for all of the pair."""
        return self._num_to_measure > 0

    def _starts_measuring(self) -> bool:
        if self._num_to_measure == 0 and self._costs.claims_measurement():
            self._num_to_measure = MEASURE_GRANT
        return self.is_measuring()

    def _best(self, num_sequences: int, limit: int) -> Pace:
        plain_s = self._costs.plain_s(num_sequences) or 0.0
        expected = expected_s(self._goes_on, lambda k: self._costs.round_s(k, num_sequences) or 0.0, limit)
        return best_pace(self._acceptance.at, lambda k: expected[k - 1], plain_s, limit)

    def _goes_on(self, num_drafted: int) -> float:
        """How likely the draft goes on to another token after so many."""
        return self._lengths.at(num_drafted - 1)

    def _trial_is_due(self, pace: Pace) -> bool:
        """The model errs against a draft seen only from the side: trials cost TRIAL_SHARE of what goes on without."""
        if not self._pair.was_tried:
            return pace.gain >= FIRST_TRIAL_WORTH
        cost_tokens = TRIAL_OVERHEAD + TRIAL_ROUNDS * pace.num_tokens * max(1 / max(pace.gain, 1e-9) - 1, 0.0)
        return self._pair.num_alone * TRIAL_SHARE >= cost_tokens
