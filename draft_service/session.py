"""One sequence on a draft model: keeps up with the transcript and runs K tokens ahead of it."""

import time
from collections.abc import Callable
from functools import partial

import numpy as np
from opentelemetry.trace import INVALID_SPAN, Span

from draft_service.drawing import Drawer
from draft_service.proposing import check_transcript, start_span
from forerun.engine.loop import NOT_FINITE, EngineLoop, StepReport
from forerun.engine.sequence import Sequence
from forerun.errors import SequenceFault
from forerun.rpc import convert
from forerun.rpc.messages import DraftOpen, Held, Propose
from forerun.serving.session import Reply
from forerun.telemetry.metrics import ServiceMetrics
from forerun.telemetry.tracing import Tracing
from forerun.transcript_hash import transcript_hash
from forerun.types import Proposal, SparseLaw


class DraftSession:
    """Lives on two threads: `begin`, `receive`, `waiting_for` and `end` on the event loop, the rest on the device's.

    Between steps: tokens[:base_len] are committed, what follows was drafted for them; num_due tokens are still
    to be drafted.
    """

    def __init__(
        self,
        opened: DraftOpen,
        drawer: Drawer,
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
        self._loop = loop
        self._max_model_len = max_model_len
        self._vocab_size = vocab_size
        self._reply = reply
        self._metrics = metrics
        self._tracing = tracing
        self._traceparent = traceparent
        prompt = list(opened.prompt)
        check_transcript(prompt, vocab_size, prompt, transcript_hash(prompt))
        self._sequence = Sequence(prompt, opened.cache_salt, num_committed=len(prompt))
        self._base_len = len(prompt)
        self._num_due = 0
        self._laws: list[SparseLaw] = []
        self._started_s = 0.0
        self._deadline_s = 0.0
        self._counted = False

    def begin(self) -> None:
        self._loop.call(self._add, self)

    def receive(self, request: Propose) -> None:
        self._loop.call(partial(self._take, request), self)

    def waiting_for(self) -> str:
        return "the draft is computing" if self._num_due else ""

    def end(self) -> None:
        self._loop.call(self._remove)

    def on_starved(self, reason: str) -> None:
        """A draft never queues: what it has by now is its proposal."""
        if self._num_due:
            self._propose()

    def on_overflow(self) -> None:
        raise SequenceFault(NOT_FINITE)

    def on_fault(self, error: Exception) -> None:
        self._end_span()
        self._reply(error)

    def on_logits(self, logits: np.ndarray, step: StepReport) -> None:
        if self._deadline_s and time.monotonic() > self._deadline_s:
            self._propose()
            return
        tokens = self._sequence.tokens
        token, law = self._drawer.draw(logits[-1], tokens, self._base_len)
        tokens.append(token)
        if law is not None:
            self._laws.append(law)
        self._num_due -= 1
        if self._num_due:
            self._loop.table.demand(self._sequence, 1)
        else:
            self._propose()

    def _add(self) -> None:
        self._loop.add(self._sequence, self)
        self._prefill()

    def _prefill(self) -> None:
        """Computes all but the last committed token ahead of the next message, where the context has room."""
        if 1 < len(self._sequence.tokens) <= self._max_model_len:
            self._sequence.request(len(self._sequence.tokens) - 1, num_logits=0)

    def _remove(self) -> None:
        self._end_span()
        self._loop.remove(self._sequence)

    def _take(self, request: Propose) -> None:
        """A new message: a proposal in the making is void; drafted tokens that came true stay in the cache."""
        if self._num_due:
            self._metrics.overtaken_proposals.inc()
        table, sequence = self._loop.table, self._sequence
        held = table.commit(sequence, request.base_len, list(request.ids))
        if held is not None:
            self._num_due = 0
            self._reply(Held(len=held))
            return
        self._base_len = request.base_len + len(request.ids)
        table.truncate(sequence, self._base_len)
        check_transcript(request.ids, self._vocab_size, sequence.tokens, request.hash)
        self._start(request)

    def _start(self, request: Propose) -> None:
        self._started_s = time.monotonic()
        self._deadline_s = self._started_s + request.deadline_s if request.deadline_s else 0.0
        self._end_span()
        self.span = start_span(self._tracing, self._traceparent, request)
        self._laws.clear()
        self._num_due = max(0, min(request.k, self._max_model_len - self._base_len + 1))
        if self._num_due:
            self._loop.table.demand(self._sequence, 1)
        else:
            self._propose()
            self._prefill()

    def _propose(self) -> None:
        """Answers with what was drafted so far; the drafted tokens stay, for they may come true."""
        drafted = tuple(self._sequence.tokens[self._base_len :])
        proposal = Proposal(self._base_len, drafted, tuple(self._laws), time.monotonic() - self._started_s)
        self._num_due = 0
        self._sequence.rest()
        self._count(len(drafted))
        self._end_span()
        self._reply(convert.proposal_to_pb(proposal))

    def _count(self, num_tokens: int) -> None:
        self._metrics.generation_tokens.inc(num_tokens)
        if not self._counted:
            self._counted = True
            self._metrics.observe_prefix(self._base_len, self._sequence.num_cached_tokens or 0)

    def _end_span(self) -> None:
        """The span stays in place: the step that answered its message is still to be linked to it."""
        if self.span.is_recording():
            self.span.end()
