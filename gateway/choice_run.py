"""One choice from first to last token: rounds while the draft pays, the target alone while it does not."""

from contextlib import AbstractContextManager

from opentelemetry.trace import Span

from forerun.errors import ServiceUnavailable
from gateway.ahead import Ahead
from gateway.clock import running_clock
from gateway.draft_link import DraftLink
from gateway.emission import Emission
from gateway.generation import ChoiceStats
from gateway.learning import Learning
from gateway.listener import Listener
from gateway.own_drafters import Offer
from gateway.own_drafting import OwnDrafting
from gateway.own_round import OwnRound
from gateway.questions import Answer
from gateway.speculation import Speculation
from gateway.target_link import TargetLink
from gateway.watch import Watch


class ChoiceRun:
    """The loop of one choice. A round begins only when the target's grant has run out, so both sides count alike."""

    def __init__(
        self, target: TargetLink, draft: DraftLink | None, emission: Emission, speculation: Speculation,
        ahead: Ahead, own: OwnDrafting, own_round: OwnRound, learning: Learning, listener: Listener, watch: Watch,
    ) -> None:  # fmt: skip
        self._target, self._draft = target, draft
        self._emission, self._transcript = emission, emission.transcript
        self._speculation, self._ahead, self._learning = speculation, ahead, learning
        self._own, self._own_round = own, own_round
        self._listener, self._watch = listener, watch
        self._now = running_clock()

    async def run(self) -> ChoiceStats:
        """Commits tokens until the text ends. See Coordinator.run."""
        try:
            await self._open()
            await self._first_token()
            while not self._emission.ended:
                await self._turn()
            await self._prompt_logprobs()
            self._target.finish()
            if self._draft is not None:
                self._draft.finish()
        finally:
            self._own.close()
            self._target.abort()
            if self._draft is not None:
                self._draft.abort()
        return self._learning.stats

    async def _open(self) -> None:
        try:
            self._target.open(self._transcript)
        except ServiceUnavailable as error:
            await self._listener.move_target(error)
        if self._draft is not None and self._emission.num_left > 1:
            self._tend(self._draft)

    async def _first_token(self) -> None:
        """K = 0 while the draft prefills; the first token never waits for it."""
        if not self._emission.ended:
            grant = self._cut(self._speculation.first_grant(self._draft is not None, self._target.num_sequences()))
            with self._watch_alone(grant) as span_id:
                self._target.verify(self._transcript, grant=grant, span_id=span_id)
                await self._listener.hear_until(self._transcript.num_prompt_tokens + 1)
            if grant > 0:
                await self._alone()

    async def _prompt_logprobs(self) -> None:
        while not self._target.has_prompt_logprobs:
            await self._listener.hear(self._target.silent_at())

    async def _turn(self) -> None:
        k, offer = self._k(), self._offer()
        if offer is not None and (k == 0 or offer.gain > self._speculation.gain):
            self._ahead.interrupted()
            await self._own_round.run(offer)
        elif k > 0 and self._draft is not None:
            await self._round(self._draft, k)
        else:
            await self._alone()

    def _k(self) -> int:
        if self._draft is None or not self._draft.ready():
            return 0
        limit = min(self._emission.num_left - 1, self._draft.room(self._transcript))
        return self._speculation.choose(self._transcript.num_generated, self._target.num_sequences(), limit)

    def _offer(self) -> Offer | None:
        """What the gateway's own drafters propose here, if that is worth a round."""
        self._own.follow(self._target.num_sequences())
        if self._speculation.is_measuring():
            return None
        return self._own.offer(self._target.num_sequences(), self._emission.num_left - 1)

    async def _round(self, draft: DraftLink, k: int) -> None:
        """Asks the draft for k tokens and has the target verify what came; without an answer in time goes on alone."""
        span = self._watch.start_round(len(self._transcript))
        try:
            await self._propose_and_verify(draft, k, span)
        finally:
            self._watch.close_round(span)

    async def _propose_and_verify(self, draft: DraftLink, k: int, span: Span | None) -> None:
        started = self._now()
        self._learning.round_begins()
        answer = draft.ready_made(self._transcript, self._emission.num_left - 1)
        if answer is None:
            answer = await self._proposal(draft, k, self._watch.span_id(span))
        asked_target = self._now()
        num_drafted = num_accepted = 0
        if answer is None:
            self._speculation.saw_lateness(self._transcript.num_generated)
        else:
            num_drafted = len(answer.proposal.tokens)
            num_accepted = await self._verify(draft, k, answer, self._watch.span_id(span))
        ended = self._now()
        self._ahead.saw_round(k, self._target.num_sequences(), ended - started)
        self._watch.end_round(
            span, num_drafted, num_accepted, ended - started, asked_target - started, ended - asked_target,
            answer is not None and answer.ahead,
        )  # fmt: skip

    async def _proposal(self, draft: DraftLink, k: int, span_id: int) -> Answer | None:
        deadline_s = self._speculation.deadline_s(k, draft.num_behind(self._transcript))
        listener = self._listener
        listener.expect_nothing()
        draft.ask(self._transcript, k, deadline_s, span_id, self._ahead.terms(k), self._min_survival(k))
        deadline = self._now() + deadline_s
        while listener.answer is None and draft.stream is not None:
            if not await listener.hear(deadline):
                self._watch.fallback("late")
                return None
        return listener.answer

    async def _verify(self, draft: DraftLink, k: int, answer: Answer, span_id: int) -> int:
        """Returns how many tokens of the proposal were accepted; what is drafted ahead has up to k."""
        listener, base_len, asked_at = self._listener, len(self._transcript), self._now()
        listener.expect_nothing()
        num_moves = listener.num_moves
        self._target.verify(self._transcript, answer.proposal, span_id=span_id)
        if answer.was_ready:
            num_drafted = len(answer.proposal.tokens)
            draft.go_ahead(self._transcript, num_drafted, span_id, self._ahead.terms(k), self._min_survival(k))
        await listener.hear_until(base_len + 1)
        verdict = listener.verdict
        if verdict is None:
            return 0
        wait_s = self._now() - asked_at if listener.num_moves == num_moves else None
        draft.settle(answer, verdict.num_accepted)
        self._learning.saw_round(answer, verdict, wait_s)
        if verdict.refused:
            self._watch.refused("target")
        return verdict.num_accepted

    async def _alone(self) -> None:
        """Renews the grant whenever half of it is used; lets it run out where a round is to follow."""
        self._ahead.interrupted()
        while not self._emission.ended:
            ready = self._draft is not None and self._draft.ready()
            own_grant = self._own.grant(self._target.num_sequences())
            grant = self._cut(min(self._speculation.grant(ready, self._target.num_sequences()), own_grant))
            with self._watch_alone(grant) as span_id:
                self._target.verify(self._transcript, grant=grant, span_id=span_id)
                await self._follow(self._target.limit - grant // 2)
                if self._k() > 0 or self._own.is_hopeful(self._target.num_sequences()):
                    await self._follow(self._target.limit)
                    return

    def _watch_alone(self, grant: int) -> AbstractContextManager[int]:
        return self._watch.alone(len(self._transcript), grant, lambda: len(self._transcript))

    async def _follow(self, length: int) -> None:
        while not self._emission.ended and len(self._transcript) < length:
            self._probe()
            await self._listener.hear(self._target.silent_at())
            self._own.follow(self._target.num_sequences())

    def _probe(self) -> None:
        """Brings the draft back, and asks it for a shadow proposal where one is due; waits for neither."""
        draft = self._draft
        if draft is None or self._emission.num_left < 2:
            return
        self._tend(draft)
        if draft.is_late() and not self._speculation.rests(self._transcript.num_generated):
            draft.ask(self._transcript, 1)
        if self._learning.has_shadow() or draft.is_asked() or not draft.ready():
            return
        room = draft.room(self._transcript)
        num_generated, num_sequences = self._transcript.num_generated, self._target.num_sequences()
        if room > 0 and (k := self._speculation.shadow_k(num_generated, num_sequences)):
            k = min(k, room)
            draft.ask(self._transcript, k, min_survival=self._min_survival(k))

    def _tend(self, draft: DraftLink) -> None:
        if draft.stream is None and not self._speculation.brings_draft(self._target.num_sequences()):
            return
        if draft.tend(self._transcript):
            self._watch.fallback("silent")

    def _min_survival(self, k: int) -> float:
        return self._speculation.min_survival(k, self._target.num_sequences())

    def _cut(self, grant: int) -> int:
        return min(grant, self._emission.num_left - 1)
