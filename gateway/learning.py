"""Turns what a sequence sees of its peers into costs, acceptance and counts."""

from forerun.rpc.messages import Verdict
from gateway.calibration import Calibrating
from gateway.clock import running_clock
from gateway.costs import Costs
from gateway.generation import ChoiceStats
from gateway.questions import Answer
from gateway.shadow import Shadow
from gateway.speculation import Speculation
from gateway.transcript import Transcript


class Learning:
    """Feeds `costs` (shared by the pair) and `speculation` (the sequence's own) and fills in `stats`.

    `calibrating` is None where the sequence does not choose whether to speculate.
    """

    def __init__(
        self, costs: Costs, speculation: Speculation, transcript: Transcript, calibrating: Calibrating | None = None
    ) -> None:
        self._costs, self._speculation, self._transcript = costs, speculation, transcript
        self._calibrating = calibrating
        self._now = running_clock()
        self._shadow: Shadow | None = None
        self._plain_at: float | None = None
        self.stats = ChoiceStats()

    def saw_round(self, answer: Answer, verdict: Verdict, wait_s: float | None) -> None:
        """A proposal was verified; wait_s None where the target moved meanwhile, so that its times say nothing."""
        num_drafted = len(answer.proposal.tokens)
        if num_drafted:
            self.saw_verified(num_drafted, verdict)
            if answer.ahead:
                self._costs.saw_readiness(num_drafted, answer.wait_s)
            else:
                self._costs.saw_proposal(num_drafted, answer.proposal.draft_s, answer.wait_s)
        if wait_s is not None:
            self.saw_wait(num_drafted, verdict, wait_s)
        num_generated = self._transcript.num_generated
        self._speculation.saw_round(answer.asked.k, num_drafted, verdict.num_accepted, num_generated)

    def saw_verified(self, num_drafted: int, verdict: Verdict) -> None:
        """A proposal of num_drafted ≥ 1 tokens was verified, whoever made it."""
        self.stats.num_drafts += 1
        self.stats.num_draft_tokens += num_drafted
        self.stats.num_accepted_tokens += verdict.num_accepted

    def saw_wait(self, num_drafted: int, verdict: Verdict, wait_s: float) -> None:
        """A verdict came wait_s after its proposal was sent."""
        rows = verdict.num_rows or num_drafted + 1
        self._costs.saw_verdict(rows, verdict.step_s, wait_s, verdict.queued_s)

    def saw_first(self, verdict: Verdict, wait_s: float | None) -> None:
        """The verdict that came with the prefill; wait_s None where its time says nothing of the way."""
        self.stats.num_cached_tokens = verdict.num_cached_tokens
        if wait_s is not None:
            self._costs.saw_trip(verdict.step_s, wait_s, verdict.queued_s)

    def saw_alone(self, verdict: Verdict, more_is_due: bool) -> None:
        """The target gave a token of its own; timed from the one before where it did not idle between."""
        now = self._now()
        if self._plain_at is not None:
            self._costs.saw_plain(verdict.num_rows or 1, verdict.step_s, now - self._plain_at)
        self._plain_at = now if more_is_due else None
        self._speculation.saw_alone(1, verdict.step_s / max(verdict.num_rows, 1))

    def saw_pace(self, num_sequences: int, num_tokens: int) -> None:
        """A verdict of num_tokens came, of whatever kind."""
        if self._calibrating is not None:
            self._calibrating.saw_verdict(num_sequences, num_tokens, self._now())

    def round_begins(self) -> None:
        """The draft service is asked for a proposal, which the target is then to verify."""
        self.interrupted()
        if self._calibrating is not None:
            self._calibrating.round_begins(self._speculation.gain)

    def interrupted(self) -> None:
        """The next token's time will say nothing of a plain step: a round comes between."""
        self._plain_at = None

    def moved(self) -> None:
        """The target is another one: what it shows from now on is not learnt as the pair's."""
        self._costs, self._calibrating, self._plain_at = Costs(), None, None

    def has_shadow(self) -> bool:
        """Whether a proposal waits for the transcript to reach past it."""
        return self._shadow is not None

    def saw_shadow(self, answer: Answer) -> None:
        """A proposal came that is not to be verified. The first of a stream tells no time: it includes the prefill."""
        if answer.proposal.tokens:
            if not answer.asked.first and not answer.ahead:
                self._costs.saw_proposal(len(answer.proposal.tokens), answer.proposal.draft_s, answer.wait_s)
            self._shadow = Shadow(answer.proposal, answer.asked.k)
            self.score()
        elif not answer.asked.first:
            self._speculation.saw_shadow(self._transcript.num_generated, [0.0])

    def score(self) -> None:
        """Scores the shadow proposal once the transcript covers it."""
        if self._shadow is not None and self._shadow.is_covered(len(self._transcript)):
            credits = self._shadow.credits(self._transcript.tail(self._shadow.base_len))
            self._speculation.saw_shadow(self._transcript.num_generated, credits, *self._shadow.length)
            self._shadow = None
