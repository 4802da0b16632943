"""What a server's refusal means: our error, with the way out and the server's own words."""

import json

from forerun.errors import ForerunError, InvalidRequest, Overloaded, ServiceUnavailable, Unauthenticated, UnknownModel

MAX_WORDS_LEN = 300  # a proxy's page of HTML is no sentence
_NO_KEY = (Unauthenticated, "the server does not know this key: give another with --api-key or FORERUN_API_KEY")
_KINDS: dict[int, tuple[type[ForerunError], str]] = {
    400: (InvalidRequest, "the server does not take this request"),
    401: _NO_KEY,
    403: _NO_KEY,
    404: (UnknownModel, "the server has no such model, or no chat API at this --url"),
    429: (Overloaded, "the server has no room: measure with less --concurrency, or raise its limits"),
    503: (ServiceUnavailable, "the server cannot answer now"),
}


def refusal(status: int, body: str) -> ForerunError:
    """The error that stands for an answer of this status."""
    kind, meaning = _KINDS.get(status, (ServiceUnavailable, "the server failed"))
    return kind(f"{meaning} ({status}: {_words(body)})")


def _words(body: str) -> str:
    try:
        told = str(json.loads(body)["error"]["message"])
    except (ValueError, LookupError, TypeError):
        told = " ".join(body.split())
    return told if len(told) <= MAX_WORDS_LEN else told[:MAX_WORDS_LEN] + "…"
