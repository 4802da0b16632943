"""What the loop of one choice tells the outside: round spans, counters, and a log line where a peer misbehaves."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from opentelemetry.trace import Span

from forerun.errors import ForerunError
from forerun.telemetry import semconv
from forerun.telemetry.context import span_id_of
from forerun.telemetry.metrics import GatewayMetrics
from forerun.telemetry.speculation_metrics import DRAFT_SERVICE, RoundSummary
from forerun.telemetry.tracing import Tracing

_log = logging.getLogger("forerun.coordinator")


class Watch:
    """Spans cost one `if` where the request is not sampled."""

    def __init__(self, tracing: Tracing, metrics: GatewayMetrics, request_span: Span, choice: int) -> None:
        self._tracing, self._metrics, self._request_span, self._choice = tracing, metrics, request_span, choice
        self._recorded = request_span.is_recording()

    def start_round(self, base_len: int) -> Span | None:
        """The round's span; None where nothing is recorded."""
        return self._tracing.start_round(self._request_span, base_len, self._choice) if self._recorded else None

    @contextmanager
    def alone(self, base_len: int, grant: int, length: Callable[[], int]) -> Iterator[int]:
        """The span of a grant, a round without proposal; gives its id, ends it however the block is left."""
        if not self._recorded:
            yield 0
            return
        span = self._tracing.start_round(self._request_span, base_len, self._choice, grant)
        try:
            yield span_id_of(span)
        finally:
            self._tracing.end_grant(span, length() - base_len)

    def close_round(self, span: Span | None) -> None:
        """Ends the span of a round that was cut off, so that its children have a parent."""
        if span is not None and span.is_recording():
            span.end()

    def span_id(self, span: Span | None) -> int:
        """What the round's messages carry."""
        return span_id_of(span) if span is not None else 0

    def end_round(
        self, span: Span | None, num_drafted: int, num_accepted: int, duration_s: float, draft_wait_s: float,
        target_wait_s: float, drafted_ahead: bool = False, drafter: str = DRAFT_SERVICE,
    ) -> None:  # fmt: skip
        """Counts a round and ends its span."""
        self._metrics.observe_round(
            RoundSummary(num_drafted, num_accepted, duration_s, draft_wait_s, drafted_ahead, drafter)
        )
        if span is not None:
            self._tracing.end_round(
                span, num_drafted, num_accepted, draft_wait_s, target_wait_s, drafted_ahead, drafter
            )

    def pushed(self, num_proposals: int) -> None:
        """The draft pushed proposals ahead of a verdict."""
        self._metrics.speculation.pushed.inc(num_proposals)

    def fallback(self, reason: str) -> None:
        """The draft was late, silent or gone."""
        self._metrics.speculation.fallbacks.labels(reason).inc()
        self._request_span.add_event(semconv.EVENT_FALLBACK, {semconv.REASON: reason})

    def nonsense(self, error: ForerunError) -> None:
        """The draft sent what cannot be used."""
        self._metrics.speculation.refused.labels("nonsense").inc()
        self.fallback("nonsense")
        _log.warning("going on without the draft: %s", error)

    def refused(self, who: str) -> None:
        """The target did not use the proposal at all."""
        self._metrics.speculation.refused.labels(who).inc()

    def overtaken(self) -> None:
        """An answer came after its round had gone on without it."""
        self._metrics.speculation.overtaken.inc()

    def handover(self) -> None:
        """The sequence leaves a target that drains."""
        self._metrics.handovers.inc()
        self._request_span.add_event(semconv.EVENT_HANDOVER)

    def failover(self, error: ForerunError) -> None:
        """The sequence moves to another target."""
        self._metrics.failovers.inc()
        self._request_span.add_event(semconv.EVENT_FAILOVER)
        _log.warning("moving to another target: %s", error)
