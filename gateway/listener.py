"""Acts on what the peers of one choice say: commits verdicts, takes answers, replaces a target that died."""

import asyncio

from forerun.errors import ConfigError, DeadlineExceeded, ForerunError, InvalidRequest, ServiceUnavailable
from forerun.rpc.clients import DraftStream, TargetStream
from forerun.rpc.mailbox import Mailbox
from forerun.rpc.messages import DraftReply, TargetReply, Verdict
from gateway.clock import running_clock
from gateway.draft_link import DraftLink
from gateway.emission import Emission
from gateway.learning import Learning
from gateway.questions import Answer
from gateway.target_link import TargetLink
from gateway.watch import Watch

Mail = tuple[DraftStream | TargetStream, DraftReply | TargetReply | ForerunError]

MAX_ATTEMPTS = 5  # in a row without a verdict between
RETRY_S = 0.1  # before the second attempt; doubles


class Listener:
    """The only reader of the mailbox. `answer` and `verdict` are the last that came; `num_moves` counts failovers."""

    def __init__(
        self, mailbox: Mailbox[Mail], target: TargetLink, draft: DraftLink | None, emission: Emission,
        learning: Learning, watch: Watch,
    ) -> None:  # fmt: skip
        self._mailbox, self._target, self._draft = mailbox, target, draft
        self._emission, self._transcript = emission, emission.transcript
        self._learning, self._watch = learning, watch
        self._now = running_clock()
        self._num_attempts = 0
        self.num_moves = 0
        self.answer: Answer | None = None
        self.verdict: Verdict | None = None

    def expect_nothing(self) -> None:
        """Forgets the last answer and verdict, so that the next can be told from them."""
        self.answer, self.verdict = None, None

    async def hear_until(self, length: int) -> None:
        """Returns when the transcript is `length` long or the text has ended."""
        while not self._emission.ended and len(self._transcript) < length:
            await self.hear(self._target.silent_at())

    async def hear(self, deadline: float) -> bool:
        """Acts on one reply; False where none came by loop time `deadline`."""
        mail = await self._mailbox.get(deadline)
        if mail is None:
            is_silent = self._target.is_due(self._transcript) and self._now() >= self._target.silent_at()
            if is_silent and not await self._target.is_alive():
                await self.move_target(DeadlineExceeded("the target fell silent"))
            return False
        stream, reply = mail
        if stream is self._target.stream:
            await self._hear_target(reply)
        elif self._draft is not None and stream is self._draft.stream:
            self._hear_draft(self._draft, reply)
        return True

    async def move_target(self, error: ForerunError) -> None:
        """Opens the sequence anew, after a growing pause where none gives a verdict; raises the incurable.

        One that fell silent is not asked again: that would cost the client another silence.
        """
        if isinstance(error, InvalidRequest):
            self._blame_proposal(error)
        if isinstance(error, DeadlineExceeded) and not self._target.has_other():
            raise error
        self._learning.moved()
        while True:
            self._num_attempts += 1
            if self._num_attempts >= MAX_ATTEMPTS:
                raise ServiceUnavailable(str(error)) if isinstance(error, ConfigError) else error
            self._watch.failover(error)
            if self._num_attempts > 1:
                await asyncio.sleep(RETRY_S * 2 ** (self._num_attempts - 2))
            try:
                self._target.move(self._transcript, error)
            except ServiceUnavailable as next_error:
                error = next_error
            else:
                self.num_moves += 1
                return

    def _blame_proposal(self, error: InvalidRequest) -> None:
        """What a target refuses with a proposal under verification is the draft's fault first; else it is raised."""
        if not self._target.has_proposal():
            raise error
        self._target.drop_proposal()
        self._watch.nonsense(error)
        if self._draft is not None:
            self._draft.give_up()

    async def _hear_target(self, reply: object) -> None:
        try:
            if isinstance(reply, ForerunError):
                raise reply
            if isinstance(reply, TargetReply):
                self._take_target_reply(reply)
        except ForerunError as error:
            await self.move_target(error)

    def _take_target_reply(self, reply: TargetReply) -> None:
        verdict = self._target.receive(reply, self._transcript)
        if verdict is not None:
            self._take_verdict(verdict)
        elif reply.HasField("prompt_logprobs") and not self._target.has_prompt_logprobs:
            self._target.has_prompt_logprobs = True
            self._emission.prompt_logprobs(reply.prompt_logprobs)
        if not self._emission.ended and self._target.may_hand_over(reply, self._transcript):
            self._hand_over()

    def _hand_over(self) -> None:
        """The target drains: goes on at another before it closes."""
        self._learning.moved()
        self._watch.handover()
        self._target.hand_over(self._transcript)
        self.num_moves += 1

    def _take_verdict(self, verdict: Verdict) -> None:
        is_first, is_alone = self._transcript.num_generated == 0, not self._target.has_proposal()
        self._emission.commit(self._target.proposed(verdict.num_accepted), verdict)
        self._target.settled()
        self.verdict, self._num_attempts = verdict, 0
        if is_first:
            is_timed = self.num_moves == 0 and not self._target.scores_prompt
            self._learning.saw_first(verdict, self._now() - self._target.asked_at if is_timed else None)
        elif is_alone:
            self._learning.saw_alone(verdict, self._target.is_due(self._transcript))
        self._learning.saw_pace(self._target.num_sequences(), 1 + verdict.num_accepted)
        self._learning.score()

    def _hear_draft(self, draft: DraftLink, reply: object) -> None:
        if isinstance(reply, ForerunError):
            draft.lost(reply)
            self._watch.fallback("gone")
        elif isinstance(reply, DraftReply):
            try:
                answer = draft.receive(reply, self._transcript)
            except ForerunError as error:
                draft.give_up()
                self._watch.nonsense(error)
            else:
                self._watch.pushed(len(reply.ahead.branches))
                if answer is not None:
                    self._take_answer(answer)

    def _take_answer(self, answer: Answer) -> None:
        """Answers that no round waits for are shadows: they are scored, never verified."""
        in_round = answer.asked.deadline_s > 0
        if in_round and answer.proposal.base_len == len(self._transcript):
            self.answer = answer
            return
        if in_round:
            self._watch.overtaken()
        self._learning.saw_shadow(answer)
