"""Prompt lookup: what followed the last few tokens when they stood here before (forerun/lookup/ngram.py)."""

import time
from collections.abc import Callable

import numpy as np

from draft_service.config import DraftConfig
from draft_service.methods import DeviceFault
from draft_service.proposing import check_transcript, start_span
from forerun import __version__
from forerun.errors import InvalidRequest
from forerun.lookup import continuation
from forerun.lookup.ngram import NgramIndex
from forerun.rpc import convert
from forerun.rpc.messages import DraftOpen, Held, Propose
from forerun.serving.session import Reply, ReplyBox
from forerun.telemetry.metrics import ServiceMetrics
from forerun.telemetry.tracing import Tracing
from forerun.types import Proposal, ServiceInfo, SparseLaw, Verification


class NgramSession:
    """Needs no device thread: a lookup takes microseconds."""

    def __init__(
        self,
        opened: DraftOpen,
        sizes: tuple[int, int],
        reply: Callable[[Reply], None],
        tracing: Tracing,
        traceparent: str | None,
        metrics: ServiceMetrics,
    ) -> None:
        self._tokens = list(opened.prompt)
        self._with_laws = convert.sampling_from_pb(opened.sampling).verification.needs_laws
        self._sizes = sizes
        self._index = NgramIndex(*sizes)
        self._reply = reply
        self._tracing = tracing
        self._traceparent = traceparent
        self._metrics = metrics

    def begin(self) -> None:
        """There is no prefill."""

    def waiting_for(self) -> str:
        return ""

    def end(self) -> None:
        self._tokens.clear()

    def receive(self, request: Propose) -> None:
        started_s = time.monotonic()
        if len(self._tokens) < request.base_len:
            self._reply(Held(len=len(self._tokens)))
            return
        self._tokens[request.base_len :] = request.ids
        if request.base_len < len(self._index):
            self._index = NgramIndex(*self._sizes)
        try:
            check_transcript((), 0, self._tokens, request.hash)
        except InvalidRequest as error:
            self._reply(error)
            return
        span = start_span(self._tracing, self._traceparent, request)
        drafted = self._look_up(request.k)
        laws = tuple(_certain(token) for token in drafted) if self._with_laws else ()
        self._metrics.generation_tokens.inc(len(drafted))
        span.end()
        proposal = Proposal(len(self._tokens), drafted, laws, time.monotonic() - started_s)
        self._tokens.extend(drafted)
        self._reply(convert.proposal_to_pb(proposal))

    def _look_up(self, k: int) -> tuple[int, ...]:
        """Up to k tokens that followed the latest earlier place of the longest matching end, if there is one."""
        for token in self._tokens[len(self._index) :]:
            self._index.read(token)
        place = self._index.place()
        return continuation(self._tokens, place, k) if place is not None else ()


class NgramMethod:
    """Serves any target: it only ever repeats ids that it was given."""

    tokens: tuple[str, ...] = ()

    def __init__(self, config: DraftConfig, metrics: ServiceMetrics, tracing: Tracing) -> None:
        self._sizes = (config.ngram_max, config.ngram_min)
        self._metrics = metrics
        self._tracing = tracing

    def start(self) -> None:
        """Nothing to start."""

    def stop(self) -> None:
        """Nothing to stop."""

    def heartbeat_age_s(self) -> float:
        return 0.0

    def info(self) -> ServiceInfo:
        return ServiceInfo(
            service="draft",
            version=__version__,
            model="ngram",
            vocab_size=0,
            fingerprint="",
            eos_token_ids=(),
            max_model_len=0,
            backend="lookup",
            method="ngram",
            verifications=tuple(Verification),
        )

    def session(self, opened: DraftOpen, box: ReplyBox, traceparent: str | None) -> NgramSession:
        return NgramSession(opened, self._sizes, box.put, self._tracing, traceparent, self._metrics)


def create(config: DraftConfig, metrics: ServiceMetrics, tracing: Tracing, on_device_fault: DeviceFault) -> NgramMethod:
    """See Create."""
    return NgramMethod(config, metrics, tracing)


def _certain(token: int) -> SparseLaw:
    return SparseLaw(np.array([token], dtype=np.int64), np.array([1], dtype=np.int64))
