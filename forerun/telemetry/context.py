"""Trace contexts on the wire: W3C traceparent in a stream's metadata, a span id in each message."""

import re

from opentelemetry.context import Context
from opentelemetry.trace import (
    NonRecordingSpan,
    Span,
    SpanContext,
    TraceFlags,
    set_span_in_context,
)

TRACEPARENT = "traceparent"

_PATTERN = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")


def parse_traceparent(traceparent: str | None) -> SpanContext | None:
    """The remote span that a traceparent names; None for an absent or malformed one, which W3C says to ignore."""
    match = _PATTERN.fullmatch(traceparent.strip()) if traceparent else None
    if match is None or match[1] == "ff" or (match[1] == "00" and match[5]):
        return None
    context = SpanContext(
        int(match[2], 16), int(match[3], 16), is_remote=True, trace_flags=TraceFlags(int(match[4], 16))
    )
    return context if context.is_valid else None


def traceparent_of(span: Span) -> str | None:
    """What a stream's metadata says of `span`; None where nothing is recorded, so that peers record nothing either."""
    context = span.get_span_context()
    if not context.trace_flags.sampled:
        return None
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"


def span_id_of(span: Span) -> int:
    """The `span_id` of an outgoing message; 0 where `span` is not recorded."""
    context = span.get_span_context()
    return context.span_id if context.trace_flags.sampled else 0


def remote_context(traceparent: str | None, span_id: int) -> Context | None:
    """The parent of a service's span: trace and flags from the stream's metadata, the span from the message.

    None where the message is untraced (span_id 0) or the stream is (no traceparent, or an unsampled one).
    """
    stream = parse_traceparent(traceparent) if span_id else None
    if stream is None or not stream.trace_flags.sampled:
        return None
    return context_with(stream.trace_id, span_id, stream.trace_flags)


def context_with(trace_id: int, span_id: int, flags: TraceFlags) -> Context:
    """A context whose current span is the remote one named."""
    parent = SpanContext(trace_id, span_id, is_remote=True, trace_flags=flags)
    return set_span_in_context(NonRecordingSpan(parent), Context())
