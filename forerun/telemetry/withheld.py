"""Tracebacks without the words of errors that are not ours: those may quote a prompt, a token or a text."""

import traceback
from collections.abc import Iterator

from forerun.errors import ForerunError

_WITHHELD = "(its words are withheld, for they may quote a request; --log-content shows them)"


def plain_traceback(error: BaseException) -> str:
    """Where `error` and what led to it were raised, and their types; only errors raised on purpose speak."""
    parts = []
    for each in reversed(list(_chain(error))):
        parts += ["Traceback (most recent call last):\n", *traceback.format_tb(each.__traceback__), _last_line(each)]
    return "".join(parts).rstrip("\n")


def _last_line(error: BaseException) -> str:
    told = str(error) if isinstance(error, ForerunError) else _WITHHELD
    return f"{type(error).__module__}.{type(error).__qualname__}: {told}\n"


def _chain(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        yield current
        current = current.__cause__ or (None if current.__suppress_context__ else current.__context__)
