"""One sequence on a draft model: keeps up with the transcript and runs K tokens ahead of it."""

import time
from collections.abc import Callable
from functools import partial

import numpy as np
from opentelemetry.trace import INVALID_SPAN, Span

from draft_service.ahead import Ahead, to_wire
from draft_service.drafted import Drafted
from draft_service.drawing import Drawer
from draft_service.experience import Experience
from draft_service.proposing import check_transcript, start_span
from forerun.engine.loop import EngineLoop
from forerun.engine.owner import NOT_FINITE, StepReport
from forerun.engine.sequence import Sequence
from forerun.errors import SequenceFault
from forerun.rpc import convert
from forerun.rpc import messages as wire
from forerun.rpc.messages import DraftOpen, Held, Propose
from forerun.serving.session import Reply
from forerun.telemetry.metrics import ServiceMetrics
from forerun.telemetry.tracing import Tracing
from forerun.transcript_hash import transcript_hash


class DraftSession:
    """Lives on two threads: `begin`, `receive`, `waiting_for` and `end` on the event loop, the rest on the device's.

    Between steps: the tokens before drafted.base_len are committed, what follows was drafted for them.
    """

    def __init__(
        self,
        opened: DraftOpen,
        drawer: Drawer,
        experience: Experience,
        loop: EngineLoop,
        max_model_len: int,
        vocab_size: int,
        reply: Callable[[Reply], None],
        metrics: ServiceMetrics,
        tracing: Tracing,
        traceparent: str | None,
    ) -> None:
        self.span: Span = INVALID_SPAN
        self._drawer = drawer
        self._confidence = experience.confidence
        self._loop = loop
        self._max_model_len = max_model_len
        self._vocab_size = vocab_size
        self._reply = reply
        self._metrics = metrics
        self._tracing = tracing
        self._traceparent = traceparent
        prompt = list(opened.prompt)
        check_transcript(prompt, vocab_size, prompt, transcript_hash(prompt))
        self._drafted = Drafted(Sequence(prompt, opened.cache_salt, num_committed=len(prompt)), len(prompt))
        self._ahead = Ahead(loop, drawer, experience, max_model_len, reply)
        self._asked = Propose()
        self._was_ahead = False
        self._started_s = 0.0
        self._deadline_s = 0.0
        self._counted = False

    def begin(self) -> None:
        self._loop.call(self._add, self)

    def receive(self, request: Propose) -> None:
        self._loop.call(partial(self._take, request), self)

    def waiting_for(self) -> str:
        return "the draft is computing" if self._drafted.num_due and not self._asked.known else ""

    def end(self) -> None:
        self._loop.call(self._remove)

    def on_starved(self, reason: str) -> None:
        """A draft never queues: what it has by now is its proposal."""
        if self._drafted.num_due:
            self._propose()
        elif self._drafted.sequence.num_logits:
            self._drafted.sequence.rest()

    def on_overflow(self) -> None:
        """Nobody asked for what lies ahead, so nobody need know that it cannot be had."""
        if self._drafted.num_due:
            raise SequenceFault(NOT_FINITE)
        self._ahead.cancel()
        self._loop.table.evict(self._drafted.sequence)

    def on_fault(self, error: Exception) -> None:
        self._ahead.cancel()
        self._end_span()
        self._reply(error)

    def on_logits(self, logits: np.ndarray, step: StepReport) -> None:
        drafted = self._drafted
        if not drafted.num_due:
            self._ahead.on_logits(logits[-1])
            return
        if self._deadline_s and time.monotonic() > self._deadline_s:
            self._propose()
            return
        asked = self._asked
        drafted.draw(self._drawer, logits[-1], wants_q=asked.min_survival > 0)
        if asked.num_branches:
            drafted.keep(logits[-1])
        if self._says_stop():
            drafted.num_due = 0
        if drafted.num_due:
            self._loop.table.demand(drafted.sequence, 1)
        else:
            self._propose()

    def _add(self) -> None:
        self._loop.add(self._drafted.sequence, self)
        self._prefill()

    def _prefill(self) -> None:
        """Computes all but the last committed token ahead of the next message, where the context has room."""
        sequence = self._drafted.sequence
        if 1 < len(sequence.tokens) <= self._max_model_len:
            sequence.request(len(sequence.tokens) - 1, num_logits=0)

    def _remove(self) -> None:
        self._end_span()
        self._ahead.cancel()
        self._loop.remove(self._drafted.sequence)

    def _take(self, request: Propose) -> None:
        """A new message: a proposal in the making is void; drafted tokens that came true stay in the cache."""
        if self._drafted.num_due:
            self._metrics.overtaken_proposals.inc()
        base_len = request.base_len + len(request.ids)
        outcomes = self._outcomes(request)
        branch = self._ahead.take(request.base_len, request.ids, request.hash, request.known)
        self._was_ahead = branch is not None
        if branch is not None:
            self._go_on_with(branch)
        sequence = self._drafted.sequence
        held = self._loop.table.commit(sequence, request.base_len, list(request.ids))
        if held is not None:
            self._drafted.num_due = 0
            self._reply(Held(len=held))
            return
        for q, accepted in outcomes:
            self._confidence.saw(q, accepted)
        if branch is None:
            self._drafted = Drafted(sequence, base_len)
            self._loop.table.truncate(sequence, base_len)
        check_transcript(request.ids, self._vocab_size, sequence.tokens[:base_len], request.hash)
        self._start(request)

    def _says_stop(self) -> bool:
        """Whether the proposal ends here; one that is under verification already has its length."""
        return not self._asked.known and self._confidence.says_stop(self._drafted.qs, self._asked.min_survival)

    def _outcomes(self, request: Propose) -> list[tuple[float, bool]]:
        """What became of the last proposal. Where laws are needed a token that was not verified may differ from the
        target's and yet be one that it would have accepted.
        """
        if self._drafted.laws and not request.judged:
            return []
        return self._drafted.outcomes(request.base_len, request.ids)

    def _go_on_with(self, branch: Drafted) -> None:
        """The branch's sequence is this session's from now on."""
        self._loop.adopt(branch.sequence, self)
        self._loop.remove(self._drafted.sequence)
        self._drafted = branch

    def _start(self, request: Propose) -> None:
        self._asked = request
        self._started_s = time.monotonic()
        self._deadline_s = self._started_s + request.deadline_s if request.deadline_s else 0.0
        self._end_span()
        self.span = start_span(self._tracing, self._traceparent, request)
        drafted, table = self._drafted, self._loop.table
        k = max(0, min(request.k, self._max_model_len - drafted.base_len + 1))
        if len(drafted.tokens) > k:
            table.truncate(drafted.sequence, drafted.base_len + k)
            drafted.shorten(k)
        drafted.num_due = k - len(drafted.tokens)
        if drafted.tokens and self._says_stop():
            drafted.num_due = 0
        if drafted.num_due:
            table.demand(drafted.sequence, 1)
        else:
            self._propose()

    def _propose(self) -> None:
        """Answers with what was drafted so far; the drafted tokens stay, for they may come true."""
        drafted, asked = self._drafted, self._asked
        is_whole, drafted.num_due = drafted.num_due == 0, 0
        drafted.sequence.rest()
        self._count(len(drafted.tokens))
        self._end_span()
        draft_s = time.monotonic() - self._started_s
        if not asked.known and self._was_ahead and drafted.tokens:
            self._reply(wire.Ahead(branches=[to_wire(drafted, asked.hash, draft_s)]))
        elif not asked.known:
            self._reply(convert.proposal_to_pb(drafted.proposal(draft_s)))
        if not drafted.tokens:
            self._prefill()
        elif asked.num_branches and is_whole:
            self._ahead.start(drafted, asked, self.span)

    def _count(self, num_tokens: int) -> None:
        self._metrics.generation_tokens.inc(num_tokens)
        if not self._counted:
            self._counted = True
            self._metrics.observe_prefix(self._drafted.base_len, self._drafted.sequence.num_cached_tokens or 0)

    def _end_span(self) -> None:
        """The span stays in place: the step that answered its message is still to be linked to it."""
        if self.span.is_recording():
            self.span.end()
