"""What every drafting method does with a Propose message: check the transcript, open its span."""

import time
from collections.abc import Sequence

from opentelemetry.trace import INVALID_SPAN, Span

from forerun.errors import InvalidRequest
from forerun.rpc.messages import Propose
from forerun.telemetry import semconv
from forerun.telemetry.context import remote_context
from forerun.telemetry.tracing import Tracing
from forerun.transcript_hash import transcript_hash


def check_transcript(
    ids: Sequence[int], vocab_size: int, transcript: Sequence[int] | None = None, sent_hash: int = 0
) -> None:
    """Raises InvalidRequest for an id outside the vocabulary (size 0: any), an empty transcript, or another hash."""
    if vocab_size and len(ids) and max(ids) >= vocab_size:
        raise InvalidRequest(f"a token id is outside the vocabulary of {vocab_size} ids", "ids")
    if transcript is not None and not len(transcript):
        raise InvalidRequest("a prompt has at least one token", "prompt")
    if transcript is not None and transcript_hash(transcript) != sent_hash:
        raise InvalidRequest(f"the {len(transcript)} tokens here do not have the hash that was sent", "hash")


def start_span(tracing: Tracing, traceparent: str | None, request: Propose) -> Span:
    """The propose span under the round that the message names; not recorded where it names none."""
    parent = remote_context(traceparent, request.span_id)
    if parent is None:
        return INVALID_SPAN
    attributes = {
        semconv.BASE_LEN: request.base_len + len(request.ids),
        semconv.NUM_DRAFT_TOKENS: request.k,
    }
    return tracing.start_served(semconv.SPAN_PROPOSE, parent, time.time_ns(), attributes)
