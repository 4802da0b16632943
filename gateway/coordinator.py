"""Conducts draft and target for every choice that the gateway generates."""

from dataclasses import dataclass
from typing import Literal

from opentelemetry.trace import Span, get_current_span

from forerun.rpc.clients import DraftClient, Metadata, TargetClient
from forerun.rpc.convert import sampling_to_pb
from forerun.rpc.mailbox import Mailbox
from forerun.sampling.noise import derive_key
from forerun.telemetry.context import TRACEPARENT, traceparent_of
from forerun.telemetry.metrics import GatewayMetrics
from forerun.telemetry.tracing import Tracing
from gateway.ahead import Ahead, AheadMode, AheadRecord
from gateway.balance import sticky_key
from gateway.calibration import Calibrating
from gateway.choice_run import ChoiceRun
from gateway.draft_link import DraftLink
from gateway.emission import Emission
from gateway.generation import ChoiceRequest, ChoiceStats, Sink
from gateway.learning import Learning
from gateway.listener import Listener, Mail
from gateway.own_drafting import OwnDrafting
from gateway.own_memory import OwnMemory
from gateway.own_round import OwnRound
from gateway.pair import PairRecord
from gateway.replicas import Replicas
from gateway.speculation import MAX_K, Speculation
from gateway.target_link import TargetLink
from gateway.terms import DraftTerms, TargetTerms
from gateway.watch import Watch

MAX_PAIRS = 4096  # of a target and a draft, whose speeds are remembered
TARGET_TIMEOUT_S = 60.0  # for a target that answers when it is looked at and yet says nothing on the stream


@dataclass(frozen=True, slots=True)
class CoordinatorSettings:
    """num_draft_tokens None is `auto`, of at most max_num_draft_tokens; a request may fix its own.

    Drafts that are not trusted are left out where the output's law depends on what they report.
    """

    num_draft_tokens: int | None = None
    max_num_draft_tokens: int = MAX_K
    target_timeout_s: float = TARGET_TIMEOUT_S
    ahead: AheadMode = "auto"
    own_drafter: Literal["auto", "off"] = "auto"
    trusts_drafts: bool = True


class Coordinator:
    """Runs choices, each in its caller's task; what they learn about the pair's speed is shared."""

    def __init__(
        self,
        targets: Replicas[TargetClient],
        drafts: Replicas[DraftClient] | None,
        metrics: GatewayMetrics,
        tracing: Tracing | None = None,
        settings: CoordinatorSettings = CoordinatorSettings(),
    ) -> None:
        self._targets, self._drafts, self._metrics = targets, drafts, metrics
        self._tracing, self._settings = tracing or Tracing(), settings
        self._pairs: dict[str, PairRecord] = {}
        self._ahead: dict[str, AheadRecord] = {}
        self._own_memory = OwnMemory()

    async def run(self, request: ChoiceRequest, sink: Sink, span: Span | None = None) -> ChoiceStats:
        """Generates one choice into `sink`; `span` (else the current one) is the request's, parent of the rounds.

        Raises InvalidRequest for what the target refuses for good, ServiceUnavailable or Overloaded when no replica
        goes on. Cancelled, it aborts both streams at once and returns without waiting for them.
        """
        span = span or get_current_span()
        traceparent = traceparent_of(span)
        metadata: Metadata = ((TRACEPARENT, traceparent),) if traceparent else ()
        return await self._choice_run(request, sink, span, metadata).run()

    def capacity(self) -> int | None:
        """Choices that the targets can run at the same time; None where one does not say.

        While none is well, as many as those that are out could: what waits is not to be let in to fail.
        """
        known = [target for target in self._targets.all if target.info is not None]
        healthy = [target for target in known if target.healthy] or known
        each = [target.info.max_sequences for target in healthy if target.info is not None]
        return sum(each) if each and all(each) else None

    def _choice_run(self, request: ChoiceRequest, sink: Sink, span: Span, metadata: Metadata) -> ChoiceRun:
        mailbox: Mailbox[Mail] = Mailbox()
        key = sticky_key(request.prompt, request.cache_salt)

        def deliver(stream: object, reply: object) -> None:
            mailbox.put((stream, reply))  # type: ignore[arg-type]

        target = TargetLink(self._targets, self._target_terms(request, key, metadata), deliver)
        draft = None
        fixed_k, needs_laws = self._fixed_k(request), request.params.verification.needs_laws
        is_safe = self._settings.trusts_drafts or not needs_laws
        if self._drafts is not None and is_safe and request.speculation.enabled and fixed_k != 0:
            draft = DraftLink(self._drafts, self._draft_terms(request, key, metadata), deliver)
        name = self._pair_name(key)
        if len(self._pairs) >= MAX_PAIRS and name not in self._pairs:
            self._forget_the_first()
        pair = self._pairs.setdefault(name, PairRecord())
        speculation = Speculation(pair, _kind(request), fixed_k, self._settings.max_num_draft_tokens)
        watch = Watch(self._tracing, self._metrics, span, request.choice)
        emission = Emission(request, sink)
        calibrating = Calibrating(pair.calibration) if draft is not None and fixed_k is None else None
        learning = Learning(pair.costs, speculation, emission.transcript, calibrating)
        listener = Listener(mailbox, target, draft, emission, learning, watch)
        ahead = Ahead(self._ahead.setdefault(name, AheadRecord(self._settings.ahead)))
        with_own = self._settings.own_drafter == "auto" and request.speculation.enabled and fixed_k is None
        max_k = self._settings.max_num_draft_tokens
        own = OwnDrafting(pair, _kind(request), emission.transcript, max_k, with_own, self._own_memory)
        own_round = OwnRound(target, emission.transcript, listener, learning, watch, needs_laws)
        return ChoiceRun(target, draft, emission, speculation, ahead, own, own_round, learning, listener, watch)

    def _fixed_k(self, request: ChoiceRequest) -> int | None:
        asked = request.speculation.num_draft_tokens
        return self._settings.num_draft_tokens if asked is None else asked

    def _forget_the_first(self) -> None:
        """Replicas that come and go have ever new addresses; what was learnt of the oldest pair is of least use."""
        oldest = next(iter(self._pairs))
        del self._pairs[oldest]
        self._ahead.pop(oldest, None)

    def _pair_name(self, key: bytes) -> str:
        target, draft = self._targets.pick(key), self._drafts.pick(key) if self._drafts else None
        return f"{target.client.address if target else ''} {draft.client.address if draft else ''}"

    def _target_terms(self, request: ChoiceRequest, key: bytes, metadata: Metadata) -> TargetTerms:
        return TargetTerms(
            sampling=sampling_to_pb(request.params),
            seed=request.seed % 2**64,
            choice=request.choice,
            cache_salt=request.cache_salt,
            num_logprobs=request.num_logprobs,
            num_prompt_logprobs=request.num_prompt_logprobs,
            key=key,
            timeout_s=self._settings.target_timeout_s,
            metadata=metadata,
        )

    def _draft_terms(self, request: ChoiceRequest, key: bytes, metadata: Metadata) -> DraftTerms:
        needs_laws = request.params.verification.needs_laws
        return DraftTerms(
            sampling=sampling_to_pb(request.params),
            noise_key=derive_key(request.seed, request.choice, "draft" if needs_laws else "match"),
            cache_salt=request.cache_salt,
            needs_laws=needs_laws,
            key=key,
            metadata=metadata,
        )


def _kind(request: ChoiceRequest) -> str:
    greedy = "greedy" if request.params.temperature == 0 else "sampled"
    return f"{request.params.verification.value} {greedy}"
