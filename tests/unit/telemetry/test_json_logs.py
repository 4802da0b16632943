"""What a log line is."""

import datetime
import json
import logging

import pytest

from forerun.errors import ServiceUnavailable
from forerun.telemetry import logs
from forerun.telemetry.summary import RequestSummary
from forerun.telemetry.tracing import Tracing

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
SUMMARY = RequestSummary(
    request_id="r-1", operation="chat", model="tiny", duration_s=0.5, finish_reasons=("stop",), num_generated_tokens=3
)


@pytest.fixture
def stderr(capsys):
    """Returns a function that reads what was logged since; restores the root logger afterwards.

    Records are plain ones: Ray, where a test before this one used it, adds a field of its own to each.
    """
    factory = logging.getLogRecordFactory()
    logging.setLogRecordFactory(logging.LogRecord)
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield lambda: capsys.readouterr().err
    logging.setLogRecordFactory(factory)
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.captureWarnings(False)


def entries(stderr):
    return [json.loads(line) for line in stderr().splitlines()]


def test_every_record_is_one_json_object_a_line(stderr):
    logs.setup_logging("target", "info", "json")
    logging.getLogger("forerun.x").info("held %d\ntokens", 5, extra={"num_rows": 7, "ratio": float("nan")})
    logging.getLogger("forerun.x").debug("not this")
    (entry,) = entries(stderr)
    time = datetime.datetime.fromisoformat(entry.pop("time"))
    assert time.utcoffset() == datetime.timedelta(0)
    assert entry == {
        "level": "info",
        "service": "target",
        "logger": "forerun.x",
        "message": "held 5\ntokens",
        "num_rows": 7,
        "ratio": "nan",
    }


def test_a_message_stands_in_a_line_once_and_without_colours(stderr):
    logs.setup_logging("gateway")
    logging.getLogger("uvicorn").info("listening", extra={"color_message": "\x1b[1mlistening\x1b[0m"})
    assert "color" not in stderr()


@pytest.mark.parametrize("format", ["json", "text"])
@pytest.mark.parametrize("shown", [True, False])
def test_an_unforeseen_exception_says_where_but_its_words_only_where_that_is_switched_on(stderr, format, shown):
    logs.setup_logging("target", format=format, with_content=shown)
    words = " ".join(("what", "the", "client", "wrote"))
    try:
        try:
            raise KeyError(words)
        except KeyError as error:
            raise ServiceUnavailable("our own words") from error
    except ServiceUnavailable:
        logging.getLogger("forerun.x").exception("failed")
    told = stderr()
    assert (words in told) is shown
    assert all(each in told for each in ("KeyError", "our own words", "test_json_logs.py"))
    if format == "json":
        assert "KeyError" in json.loads(told)["exception"], "it stays on its line"


def test_extra_fields_cannot_displace_the_standard_ones(stderr):
    logs.setup_logging("target")
    logging.getLogger("forerun.x").info("mine", extra={"level": "fatal", "service": "other"})
    (entry,) = entries(stderr)
    assert (entry["level"], entry["service"]) == ("info", "target")


def test_a_request_leaves_one_line_with_its_ids_counts_and_trace(stderr):
    logs.setup_logging("gateway")
    span = Tracing().start_request("chat", "tiny", f"00-{TRACE}-{SPAN}-01")
    logs.request_log(SUMMARY, span)
    (entry,) = entries(stderr)
    assert entry["trace_id"] == TRACE
    assert entry["request_id"] == "r-1"
    assert entry["finish_reasons"] == ["stop"]
    assert entry["num_generated_tokens"] == 3
    assert entry["level"] == "info"


def test_a_failure_of_ours_is_a_warning(stderr):
    logs.setup_logging("gateway")
    logs.request_log(RequestSummary("r", "chat", "tiny", 0.1, status=503, error="ServiceUnavailable"))
    (entry,) = entries(stderr)
    assert (entry["level"], entry["error"]) == ("warning", "ServiceUnavailable")
    assert "trace_id" not in entry


def test_text_logs_show_the_fields_behind_the_message(stderr):
    logs.setup_logging("gateway", "INFO", "text")
    logs.request_log(SUMMARY)
    (line,) = stderr().splitlines()
    assert "forerun.request: request request_id=r-1" in line
    assert "error=" not in line


def test_a_summary_has_no_room_for_content():
    fields = RequestSummary.__dataclass_fields__
    assert not {"prompt", "text", "tokens", "messages", "content", "stop"} & set(fields)


def test_time_per_output_token_needs_two_tokens():
    assert SUMMARY.time_per_output_token_s is None
    two = RequestSummary("r", "chat", "tiny", 0.5, time_to_first_token_s=0.1, num_generated_tokens=2)
    assert two.time_per_output_token_s == pytest.approx(0.4)
