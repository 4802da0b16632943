"""Errors as OpenAI's clients expect them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from forerun.errors import (
    DeadlineExceeded,
    InvalidRequest,
    Overloaded,
    SequenceFault,
    ServiceUnavailable,
    Unauthenticated,
    UnknownModel,
)


class BodyTooLarge(InvalidRequest):
    """The request's body has more bytes than this server reads."""


class BodyTooSlow(InvalidRequest):
    """The request's body did not arrive in time."""


class ContextLengthExceeded(InvalidRequest):
    """The prompt and max_tokens do not fit into the model's context."""


class Unsupported(InvalidRequest):
    """A known parameter that would change the output and is not implemented."""


class UnknownParameter(InvalidRequest):
    """A parameter that no API we speak has."""


@dataclass(frozen=True, slots=True)
class Face:
    """How one kind of error looks outside."""

    http: int
    type: str
    code: str | None


_INTERNAL = Face(500, "server_error", "internal_error")
_FACES: tuple[tuple[type[Exception], Face], ...] = (
    (UnknownModel, Face(404, "invalid_request_error", "model_not_found")),
    (Unauthenticated, Face(401, "invalid_request_error", "invalid_api_key")),
    (BodyTooSlow, Face(408, "invalid_request_error", "request_timeout")),
    (BodyTooLarge, Face(413, "invalid_request_error", "request_too_large")),
    (ContextLengthExceeded, Face(400, "invalid_request_error", "context_length_exceeded")),
    (Unsupported, Face(400, "invalid_request_error", "unsupported_parameter")),
    (UnknownParameter, Face(400, "invalid_request_error", "unknown_parameter")),
    (InvalidRequest, Face(400, "invalid_request_error", None)),
    (Overloaded, Face(429, "rate_limit_error", "overloaded")),
    (DeadlineExceeded, Face(503, "server_error", "deadline_exceeded")),
    (ServiceUnavailable, Face(503, "server_error", "service_unavailable")),
    (SequenceFault, Face(500, "server_error", "sequence_fault")),
)


def face_of(error: BaseException) -> Face:
    """Returns how `error` is shown; anything that is not ours is an internal error."""
    return next((face for kind, face in _FACES if isinstance(error, kind)), _INTERNAL)


def message_of(error: BaseException) -> str:
    """Returns the sentence for the client; an unforeseen error tells nothing of its inside."""
    return str(error) if face_of(error) is not _INTERNAL else "the server failed unexpectedly; its log says why"


def error_body(error: BaseException) -> dict[str, Any]:
    """Returns OpenAI's error object."""
    face = face_of(error)
    param = getattr(error, "param", None)
    return {"error": {"message": message_of(error), "type": face.type, "param": param, "code": face.code}}


def error_headers(error: BaseException) -> Mapping[str, str]:
    """Returns the headers that go with the status: who cannot be served now is told when to come back."""
    if isinstance(error, Unauthenticated):
        return {"www-authenticate": "Bearer"}
    if isinstance(error, BodyTooLarge | BodyTooSlow):
        return {"connection": "close"}  # the rest of the body is not waited for
    return {"retry-after": "1"} if isinstance(error, Overloaded | ServiceUnavailable) else {}
