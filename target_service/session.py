"""One sequence on the target: verifies proposals, signs for tokens, goes on alone while its grant lasts."""

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from opentelemetry.trace import INVALID_SPAN, Span

from forerun.engine.loop import EngineLoop
from forerun.engine.owner import NOT_FINITE, StepReport
from forerun.engine.sequence import Sequence
from forerun.errors import InvalidRequest, SequenceFault
from forerun.rpc import convert
from forerun.rpc.messages import Held, PromptLogprobs, TargetOpen, Verify
from forerun.serving.session import Reply
from forerun.telemetry import semconv
from forerun.telemetry.context import remote_context
from forerun.telemetry.metrics import ServiceMetrics
from forerun.telemetry.tracing import Tracing
from forerun.transcript_hash import transcript_hash
from forerun.types import Proposal
from target_service.prompt_scoring import PromptScoring
from target_service.verifier import Verifier


class TargetSession:
    """Lives on two threads: `begin`, `receive`, `waiting_for` and `end` on the event loop, the rest on the device's.

    Between steps: tokens[:signed] are the transcript as far as it was signed for or committed; the rest of the
    sequence's tokens is the proposal in flight; num_due verdicts are still to be sent.
    """

    def __init__(
        self,
        opened: TargetOpen,
        verifier: Verifier,
        loop: EngineLoop,
        max_model_len: int,
        vocab_size: int,
        reply: Callable[[Reply], None],
        metrics: ServiceMetrics,
        tracing: Tracing,
        traceparent: str | None,
    ) -> None:
        prompt = list(opened.prompt)
        _check_prompt(prompt, max_model_len, vocab_size)
        self.span: Span = INVALID_SPAN
        self._verifier = verifier
        self._loop = loop
        self._max_model_len = max_model_len
        self._vocab_size = vocab_size
        self._reply = reply
        self._metrics = metrics
        self._tracing = tracing
        self._traceparent = traceparent
        self._scoring = (
            PromptScoring(prompt, opened.num_prompt_logprobs, vocab_size)
            if opened.HasField("num_prompt_logprobs")
            else None
        )
        self._sequence = Sequence(
            prompt,
            opened.cache_salt,
            num_committed=len(prompt),
            reuse_prefix=self._scoring is None,
            best_of=verifier.best_of if self._scoring is None else 0,
        )
        self._signed = len(prompt)
        self._num_due = 0
        self._proposal = Proposal(len(prompt))
        self._deferred: Verify | None = None
        self._received_ns: int | None = None
        self._starved = ""
        self._counted = False

    def begin(self) -> None:
        self._loop.call(self._add, self)

    def receive(self, request: Verify) -> None:
        self._loop.call(partial(self._take, request, time.time_ns()), self)

    def waiting_for(self) -> str:
        if self._num_due == 0 and self._scoring is None:
            return ""
        return self._starved or f"{self._sequence.num_computed} of {self._sequence.goal} tokens are computed"

    def end(self) -> None:
        self._loop.call(self._remove)

    def on_starved(self, reason: str) -> None:
        self._starved = reason

    def on_overflow(self) -> None:
        """Under match a draft must not end a sequence: its token that overflowed goes, all else is computed again."""
        if not self._proposal.tokens or not self._verifier.survives_any_draft:
            raise SequenceFault(NOT_FINITE)
        self._loop.table.evict(self._sequence)
        self._loop.table.truncate(self._sequence, self._signed)
        self._sequence.num_committed = self._signed
        self._extend(Proposal(self._signed))

    def on_fault(self, error: Exception) -> None:
        self._end_span()
        self._reply(error)

    def on_logits(self, logits: Any, step: StepReport) -> None:
        self._starved = ""
        if self._scoring is not None:
            self._score(self._scoring, logits)
            return
        sequence = self._sequence
        verdict = self._verifier.verify(sequence.tokens[: self._signed], self._proposal, logits)
        self._sign(verdict.num_accepted, verdict.token)
        self._count(verdict.num_accepted + 1, verdict.refused)
        verdict = replace(
            verdict,
            step_s=step.step_s,
            num_rows=step.num_rows,
            num_queued=step.num_queued,
            num_cached_tokens=sequence.num_cached_tokens or 0,
            queued_s=self._queued_s(step),
        )
        self._reply(convert.verdict_to_pb(verdict))
        self._go_on()

    def _queued_s(self, step: StepReport) -> float:
        """From the message's receipt to the start of its first forward; 0 for what a grant brings after that."""
        received_ns, self._received_ns = self._received_ns, None
        return max(step.start_ns - received_ns, 0) / 1e9 if received_ns is not None else 0.0

    def _add(self) -> None:
        self._loop.add(self._sequence, self)
        if self._scoring is not None:
            self._score_on(self._scoring)
        elif len(self._sequence.tokens) > 1:
            self._sequence.request(len(self._sequence.tokens) - 1, num_logits=0)

    def _remove(self) -> None:
        self._end_span()
        self._loop.remove(self._sequence)

    def _take(self, request: Verify, received_ns: int) -> None:
        """A new message: what was in flight is void, what was signed stays."""
        if self._scoring is not None:
            self._deferred = request
            return
        self._received_ns = received_ns
        table, sequence = self._loop.table, self._sequence
        table.truncate(sequence, self._signed)
        held = table.commit(sequence, request.base_len, list(request.ids))
        if held is not None:
            self._num_due = 0
            self._reply(Held(len=held))
            return
        committed = request.base_len + len(request.ids)
        self._check(request, committed)
        self._start_span(request)
        overtaken = len(sequence.tokens) - committed
        self._signed = len(sequence.tokens)
        self._num_due = max(0, 1 + request.grant - overtaken)
        if overtaken and request.proposal.tokens:
            self._metrics.overtaken_proposals.inc()
        proposal = Proposal(self._signed) if overtaken else convert.proposal_from_pb(request.proposal)
        self._extend(self._cut(proposal))

    def _check(self, request: Verify, committed: int) -> None:
        """Raises InvalidRequest for a transcript that is not the gateway's, too long, or has unknown ids."""
        if transcript_hash(self._sequence.tokens[:committed]) != request.hash:
            raise InvalidRequest(f"the first {committed} tokens here do not have the hash that was sent", "hash")
        _check_prompt(list(request.ids), self._max_model_len - request.base_len, self._vocab_size)

    def _cut(self, proposal: Proposal) -> Proposal:
        """Drops drafted tokens that the context has no room for; which ones depends on lengths alone."""
        room = max(0, self._max_model_len - self._signed)
        if len(proposal.tokens) <= room:
            return proposal
        return replace(proposal, tokens=proposal.tokens[:room], laws=proposal.laws[:room])

    def _extend(self, proposal: Proposal) -> None:
        """Has the proposal's rows computed, if a verdict is due."""
        if self._num_due == 0 or self._signed > self._max_model_len:
            self._num_due = 0
            self._sequence.rest()
            return
        usable = self._verifier.usable(proposal) if proposal.base_len == self._signed else ()
        self._proposal = proposal
        self._sequence.tokens.extend(usable)
        self._loop.table.demand(self._sequence, len(usable) + 1)

    def _sign(self, num_accepted: int, token: int) -> None:
        length = self._signed + num_accepted
        self._loop.table.truncate(self._sequence, length)
        self._sequence.tokens.append(token)
        self._signed = self._sequence.num_committed = length + 1

    def _go_on(self) -> None:
        self._num_due -= 1
        if self._num_due == 0:
            self._end_span()
        self._extend(Proposal(self._signed))

    def _score(self, scoring: PromptScoring, logits: np.ndarray) -> None:
        scoring.take(logits)
        self._score_on(scoring)

    def _score_on(self, scoring: PromptScoring) -> None:
        """Asks for the next slice, or answers; a prompt of one token has nothing to score."""
        if scoring.request(self._sequence):
            return
        self._reply(PromptLogprobs(logprobs=convert.logprobs_to_pb(scoring.logprobs)))
        self._scoring = None
        if self._deferred is not None:
            self._take(self._deferred, time.time_ns())

    def _count(self, num_tokens: int, refused: str) -> None:
        self._metrics.generation_tokens.inc(num_tokens)
        if refused:
            self._metrics.refused_proposals.labels("verifier").inc()
        if not self._counted:
            self._counted = True
            self._metrics.observe_prefix(len(self._sequence.tokens), self._sequence.num_cached_tokens or 0)

    def _start_span(self, request: Verify) -> None:
        self._end_span()
        parent = remote_context(self._traceparent, request.span_id)
        self.span = INVALID_SPAN
        if parent is not None:
            attributes = {
                semconv.BASE_LEN: request.base_len + len(request.ids),
                semconv.NUM_DRAFT_TOKENS: len(request.proposal.tokens),
                semconv.GRANT: request.grant,
            }
            self.span = self._tracing.start_served(semconv.SPAN_VERIFY, parent, time.time_ns(), attributes)

    def _end_span(self) -> None:
        """The span stays in place: the step that answered its message is still to be linked to it."""
        if self.span.is_recording():
            self.span.end()


def _check_prompt(ids: list[int], max_len: int, vocab_size: int) -> None:
    if len(ids) > max_len:
        raise InvalidRequest(f"{len(ids)} tokens are over the limit of {max_len}", "prompt")
    if ids and max(ids) >= vocab_size:
        raise InvalidRequest(f"a token id is outside the vocabulary of {vocab_size} ids", "prompt")
