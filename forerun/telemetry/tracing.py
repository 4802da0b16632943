"""Spans of a request over gateway, draft and target, exported by OTLP; without an endpoint nothing is recorded.

Spans start and end on different threads, so parents are passed by hand and never taken from the current context.
Times are `time.time_ns()`. Where a request is not sampled, its rounds and all that peers do for it cost one `if`.
"""

from collections.abc import Mapping, Sequence

from opentelemetry.context import Context
from opentelemetry.sdk.trace.sampling import Decision, Sampler
from opentelemetry.trace import (
    INVALID_SPAN,
    Link,
    NoOpTracer,
    Span,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    Tracer,
    set_span_in_context,
)

from forerun.telemetry import semconv
from forerun.telemetry.context import context_with, parse_traceparent
from forerun.telemetry.exporting import Exporting, start_exporting
from forerun.telemetry.semconv import AttributeValue
from forerun.telemetry.speculation_metrics import DRAFT_SERVICE
from forerun.telemetry.summary import RequestSummary

Attributes = Mapping[str, AttributeValue]


class Tracing:
    """Starts every span that Forerun has. Safe to call from any thread."""

    def __init__(self, exporting: Exporting | None = None) -> None:
        self._exporting = exporting
        self._sampler: Sampler | None = exporting.sampler if exporting else None
        self._tracer: Tracer = exporting.tracer if exporting else NoOpTracer()

    @property
    def enabled(self) -> bool:
        """Whether anything can ever be recorded."""
        return self._exporting is not None

    def start_request(
        self, operation: str, model: str, traceparent: str | None = None, attributes: Attributes | None = None
    ) -> Span:
        """A server span that continues the client's trace; whether it is recorded is decided here, not by the client.

        With tracing off it still carries the client's trace id, for the logs.
        """
        name = f"{operation} {model}"
        known: Attributes = {
            semconv.OPERATION_NAME: operation,
            semconv.PROVIDER_NAME: semconv.PROVIDER,
            semconv.REQUEST_MODEL: model,
        }
        context = self._client_context(traceparent, name)
        return self._tracer.start_span(name, context, SpanKind.SERVER, {**known, **(attributes or {})})

    def _client_context(self, traceparent: str | None, name: str) -> Context:
        client = parse_traceparent(traceparent)
        if client is None:
            return Context()
        flags = TraceFlags.DEFAULT
        if self._sampler is not None:
            result = self._sampler.should_sample(None, client.trace_id, name, SpanKind.SERVER)
            flags = TraceFlags.SAMPLED if result.decision is Decision.RECORD_AND_SAMPLE else TraceFlags.DEFAULT
        return context_with(client.trace_id, client.span_id, TraceFlags(flags))

    def end_request(self, span: Span, summary: RequestSummary) -> None:
        """Ends a request span with what came of it."""
        if span.is_recording():
            span.set_attributes(_response_attributes(summary))
            if summary.error and summary.status >= 500:
                span.set_status(Status(StatusCode.ERROR, summary.error))
        span.end()

    def start_round(self, request: Span, base_len: int, choice: int = 0, grant: int | None = None) -> Span:
        """A round of a choice, child of its request span; not recorded where that is not.

        With a grant: the target goes on alone, K is 0.
        """
        if not request.is_recording():
            return INVALID_SPAN
        attributes: dict[str, AttributeValue] = {semconv.BASE_LEN: base_len, semconv.CHOICE: choice}
        if grant is not None:
            attributes |= {semconv.GRANT: grant, semconv.NUM_DRAFT_TOKENS: 0}
        return self._tracer.start_span(
            semconv.SPAN_ROUND, set_span_in_context(request, Context()), attributes=attributes
        )

    def end_round(
        self, span: Span, num_draft_tokens: int, num_accepted_tokens: int, draft_wait_s: float, target_wait_s: float,
        drafted_ahead: bool = False, drafter: str = DRAFT_SERVICE,
    ) -> None:  # fmt: skip
        """Ends a round with its K, what the target accepted, and how long the gateway waited for either peer.

        drafted_ahead: the proposal was there before it was asked for; drafter: the service, or one of the gateway's.
        """
        if not span.is_recording():
            return
        span.set_attributes(
            {
                semconv.NUM_DRAFT_TOKENS: num_draft_tokens,
                semconv.NUM_ACCEPTED_TOKENS: num_accepted_tokens,
                semconv.DRAFTED_AHEAD: drafted_ahead,
                semconv.DRAFTER: drafter,
                semconv.DRAFT_WAIT_S: draft_wait_s,
                semconv.TARGET_WAIT_S: target_wait_s,
            }
        )
        span.end()

    def end_grant(self, span: Span, num_tokens: int) -> None:
        """Ends a round in which the target was alone and num_tokens were committed."""
        if span.is_recording():
            span.set_attribute(semconv.NUM_TOKENS, num_tokens)
            span.end()

    def start_served(
        self, name: str, parent: Context | None, start_ns: int | None = None, attributes: Attributes | None = None
    ) -> Span:
        """A propose or verify span under `remote_context(...)`; not recorded where that is None."""
        if parent is None:
            return INVALID_SPAN
        return self._tracer.start_span(name, parent, SpanKind.SERVER, attributes, start_time=start_ns)

    def step_tracer(self) -> "StepTracer":
        """The recorder of this service's batched steps."""
        return StepTracer(self._tracer)

    def shutdown(self, timeout_s: float = 3.0) -> None:
        """Exports what is left, for at most about timeout_s; later spans are lost."""
        if self._exporting is not None:
            self._exporting.shutdown(timeout_s)


class StepTracer:
    """Records a batched step with a link to every propose or verify span that it served."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer

    def on_step(
        self,
        start_ns: int,
        end_ns: int,
        num_rows: int,
        num_sequences: int,
        contexts: Sequence[SpanContext | None],
    ) -> None:
        """Records one forward of num_rows tokens; nothing where none of the served spans is sampled."""
        served = [context for context in contexts if context is not None and context.trace_flags.sampled]
        if not served:
            return
        attributes: Attributes = {semconv.NUM_ROWS: num_rows, semconv.NUM_SEQUENCES: num_sequences}
        links = [Link(context) for context in served]
        span = self._tracer.start_span(
            semconv.SPAN_STEP, Context(), attributes=attributes, links=links, start_time=start_ns
        )
        span.end(end_ns)


def setup(service_name: str) -> Tracing:
    """Tracing as the OTEL_* environment asks for it; records nothing without OTEL_EXPORTER_OTLP_ENDPOINT.

    Raises ConfigError for a protocol or a sampler that is not to be had.
    """
    return Tracing(start_exporting(service_name))


def _response_attributes(summary: RequestSummary) -> Attributes:
    attributes: dict[str, AttributeValue] = {
        semconv.RESPONSE_ID: summary.request_id,
        semconv.RESPONSE_MODEL: summary.model,
        semconv.RESPONSE_FINISH_REASONS: summary.finish_reasons,
        semconv.USAGE_INPUT_TOKENS: summary.num_prompt_tokens,
        semconv.USAGE_OUTPUT_TOKENS: summary.num_generated_tokens,
        semconv.USAGE_CACHED_TOKENS: summary.num_cached_tokens,
        semconv.NUM_DRAFTS: summary.num_drafts,
        semconv.NUM_DRAFT_TOKENS: summary.num_draft_tokens,
        semconv.NUM_ACCEPTED_TOKENS: summary.num_accepted_tokens,
    }
    if summary.time_to_first_token_s is not None:
        attributes[semconv.TIME_TO_FIRST_TOKEN_S] = summary.time_to_first_token_s
    if summary.error:
        attributes[semconv.ERROR_TYPE] = summary.error
    return attributes
