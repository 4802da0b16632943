"""Logs on stderr, one JSON object a line. Ids, counts and durations; never a prompt, a token or generated text."""

import dataclasses
import datetime
import json
import logging
import math
import sys
from typing import Any, Literal

from opentelemetry.trace import Span

from forerun.telemetry.summary import RequestSummary
from forerun.telemetry.withheld import plain_traceback

LogFormat = Literal["json", "text"]

_TEXT = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"
# What every record has, and uvicorn's message once more in colours; all else that a record carries is its `extra`.
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", "color_message"}


def setup_logging(service: str, level: str = "INFO", format: LogFormat = "json", with_content: bool = False) -> None:
    """Sends every logger of this process to stderr in one format; replaces the handlers that were there.

    with_content shows the words of unforeseen errors, which may quote prompts and tokens.
    """
    handler = logging.StreamHandler(sys.stderr)
    formatter = JsonFormatter(service) if format == "json" else TextFormatter(_TEXT)
    if not with_content:
        formatter.formatException = _without_content  # type: ignore[assignment, method-assign]
    handler.setFormatter(formatter)
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    logging.captureWarnings(True)


class JsonFormatter(logging.Formatter):
    """A record as one line: time, level, service, logger, message, then whatever `extra` gave."""

    def __init__(self, service: str) -> None:
        super().__init__()
        self._service = service

    def format(self, record: logging.LogRecord) -> str:
        """See `logging.Formatter.format`."""
        time = datetime.datetime.fromtimestamp(record.created, datetime.UTC)
        entry: dict[str, Any] = {
            "time": time.isoformat(timespec="microseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "service": self._service,
            "logger": record.name,
            "message": record.getMessage(),
        }
        entry |= {name: value for name, value in _extra(record).items() if name not in entry}
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        return json.dumps(entry, ensure_ascii=False, default=str)


class TextFormatter(logging.Formatter):
    """A record for people: the message, then `extra` as name=value, leaving out what is empty."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802
        """See `logging.Formatter.formatMessage`."""
        extra = [f"{name}={value}" for name, value in _extra(record).items() if value not in (None, "", ())]
        return " ".join([super().formatMessage(record), *extra])


def trace_ids(span: Span | None) -> dict[str, str]:
    """`trace_id` and `span_id` for a record's `extra`; empty where there is no trace."""
    context = span.get_span_context() if span is not None else None
    if context is None or not context.is_valid:
        return {}
    return {"trace_id": f"{context.trace_id:032x}", "span_id": f"{context.span_id:016x}"}


def request_log(summary: RequestSummary, span: Span | None = None) -> None:
    """Writes the one line that a request leaves: a warning where it failed by our fault, else info."""
    level = logging.WARNING if summary.status >= 500 else logging.INFO
    fields = dataclasses.asdict(summary) | trace_ids(span)
    logging.getLogger("forerun.request").log(level, "request", extra=fields)


def _without_content(raised: Any) -> str:
    return "" if raised[1] is None else plain_traceback(raised[1])


def _extra(record: logging.LogRecord) -> dict[str, Any]:
    return {name: _plain(value) for name, value in vars(record).items() if name not in _STANDARD}


def _plain(value: Any) -> Any:
    # JSON has no NaN and no infinity.
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
