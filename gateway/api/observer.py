"""What a request tells telemetry: that it began, each burst of tokens, and how it ended."""

import contextlib
from collections.abc import Iterator
from typing import Protocol

from opentelemetry import trace
from opentelemetry.trace import Span

from forerun.telemetry import semconv
from forerun.telemetry.logs import request_log
from forerun.telemetry.metrics import GatewayMetrics
from forerun.telemetry.summary import RequestSummary
from forerun.telemetry.tracing import Attributes, Tracing
from gateway.api.job import Job

OPERATIONS = {"chat": semconv.OPERATION_CHAT, "completion": semconv.OPERATION_TEXT_COMPLETION}


class Watch(Protocol):
    """Follows one request."""

    def current(self) -> contextlib.AbstractContextManager[None]:
        """Makes the request's span the current one, so that tasks started inside inherit it."""
        ...

    def first_token(self) -> None:
        """Called once, when the first token of any choice is there."""
        ...

    def inter_token(self, seconds: float) -> None:
        """Takes the mean seconds between tokens of one burst."""
        ...

    def end(self, summary: RequestSummary) -> None:
        """Called once, last, however the request ended."""
        ...


class Observer(Protocol):
    """Starts a watch for each request; job is None for one that was refused."""

    def begin(self, operation: str, job: Job | None, traceparent: str | None) -> Watch:
        """Called when a request was read."""
        ...


class TelemetryObserver:
    """Spans, metrics and one log line a request."""

    def __init__(self, tracing: Tracing, metrics: GatewayMetrics) -> None:
        self._tracing = tracing
        self._metrics = metrics

    def begin(self, operation: str, job: Job | None, traceparent: str | None) -> Watch:
        """See `Observer.begin`."""
        model = "unknown" if job is None else job.model
        attributes = {} if job is None else _attributes(job)
        span = self._tracing.start_request(operation, model, traceparent, attributes)
        return _TelemetryWatch(self._tracing, self._metrics, span)


def _attributes(job: Job) -> Attributes:
    sampling = job.sampling
    max_tokens = max(prompt.max_tokens for prompt in job.prompts)
    return semconv.sampling_attributes(sampling.params, max_tokens, sampling.user_seed, job.num_choices)


class _TelemetryWatch:
    """Counts the request in `_gauge`: as waiting until its first token, as running from then on."""

    def __init__(self, tracing: Tracing, metrics: GatewayMetrics, span: Span) -> None:
        self._tracing = tracing
        self._metrics = metrics
        self._span = span
        self.inter_token = metrics.observe_inter_token
        self._gauge = metrics.num_requests_waiting
        self._gauge.inc()

    @contextlib.contextmanager
    def current(self) -> Iterator[None]:
        with trace.use_span(self._span, record_exception=False, set_status_on_exception=False):
            yield

    def first_token(self) -> None:
        self._gauge.dec()
        self._gauge = self._metrics.num_requests_running
        self._gauge.inc()

    def end(self, summary: RequestSummary) -> None:
        self._gauge.dec()
        self._metrics.observe_request(summary)
        self._tracing.end_request(self._span, summary)
        request_log(summary, self._span)


class SilentObserver:
    """Tells nobody."""

    def begin(self, operation: str, job: Job | None, traceparent: str | None) -> Watch:
        """See `Observer.begin`."""
        return self

    def current(self) -> contextlib.AbstractContextManager[None]:
        """See `Watch.current`."""
        return contextlib.nullcontext()

    def first_token(self) -> None:
        """See `Watch.first_token`."""

    def inter_token(self, seconds: float) -> None:
        """See `Watch.inter_token`."""

    def end(self, summary: RequestSummary) -> None:
        """See `Watch.end`."""
