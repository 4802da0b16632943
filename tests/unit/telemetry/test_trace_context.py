"""Trace contexts on the wire, and what tracing does where nothing is recorded."""

import pytest
from opentelemetry.trace import INVALID_SPAN, get_current_span

from forerun.errors import ConfigError
from forerun.telemetry import semconv, tracing
from forerun.telemetry.context import parse_traceparent, remote_context, span_id_of, traceparent_of
from forerun.telemetry.exporting import sampler_from, start_exporting
from forerun.telemetry.logs import trace_ids
from forerun.telemetry.semconv import sampling_attributes
from forerun.telemetry.summary import RequestSummary
from forerun.telemetry.tracing import StepTracer, Tracing
from forerun.types import SamplingParams

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
SAMPLED = f"00-{TRACE}-{SPAN}-01"
SUMMARY = RequestSummary("r", "chat", "tiny", 0.5)


class ForbiddenTracer:
    def start_span(self, *args, **kwargs):
        raise AssertionError("a span was started")


@pytest.fixture(autouse=True)
def no_endpoint(monkeypatch):
    for name in ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    "bad",
    [
        None,
        "",
        "nonsense",
        SAMPLED.upper(),
        SAMPLED + "-more",
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE[:-1]}-{SPAN}-01",
    ],
)
def test_a_malformed_traceparent_is_ignored(bad):
    assert parse_traceparent(bad) is None
    assert remote_context(bad, 5) is None


def test_a_later_version_of_traceparent_may_carry_more():
    assert parse_traceparent(f"01-{TRACE}-{SPAN}-01-more").span_id == int(SPAN, 16)


def test_a_services_parent_is_the_messages_span_in_the_streams_trace():
    parent = get_current_span(remote_context(SAMPLED, 77)).get_span_context()
    assert (f"{parent.trace_id:032x}", parent.span_id, parent.is_remote) == (TRACE, 77, True)
    assert parent.trace_flags.sampled


def test_an_untraced_message_or_stream_has_no_parent():
    assert remote_context(SAMPLED, 0) is None
    assert remote_context(None, 77) is None
    assert remote_context(f"00-{TRACE}-{SPAN}-00", 77) is None


def test_without_an_endpoint_nothing_is_recorded_and_nothing_goes_out():
    gateway = tracing.setup("forerun-gateway")
    request = gateway.start_request("chat", "tiny", SAMPLED)
    round_span = gateway.start_round(request, 7)
    gateway.end_round(round_span, 4, 3, 0.0, 0.0)
    gateway.end_request(request, SUMMARY)
    assert not gateway.enabled
    assert not request.is_recording()
    assert round_span is INVALID_SPAN
    assert (traceparent_of(request), span_id_of(round_span)) == (None, 0)
    gateway.shutdown()


def test_without_an_endpoint_logs_still_carry_the_clients_trace_id():
    assert trace_ids(Tracing().start_request("chat", "tiny", SAMPLED))["trace_id"] == TRACE
    assert trace_ids(Tracing().start_request("chat", "tiny")) == {}


def test_an_untraced_message_starts_no_span_on_a_service():
    assert Tracing().start_served(semconv.SPAN_VERIFY, None) is INVALID_SPAN


def test_a_step_that_served_nothing_sampled_starts_no_span():
    unsampled = parse_traceparent(f"00-{TRACE}-{SPAN}-00")
    StepTracer(ForbiddenTracer()).on_step(0, 1, 5, 3, [None, unsampled, INVALID_SPAN.get_span_context()])


def test_the_environment_can_switch_export_off():
    endpoint = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4317"}
    assert start_exporting("s", {}) is None
    assert start_exporting("s", {**endpoint, "OTEL_SDK_DISABLED": "true"}) is None
    assert start_exporting("s", {**endpoint, "OTEL_TRACES_EXPORTER": "none"}) is None


def test_a_protocol_that_is_not_grpc_is_refused_by_name():
    environ = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"}
    with pytest.raises(ConfigError, match="OTEL_EXPORTER_OTLP_PROTOCOL"):
        start_exporting("s", environ)


@pytest.mark.parametrize(
    ("name", "argument", "description"),
    [
        ("", "", "ParentBased{root:AlwaysOnSampler"),
        ("always_off", "", "AlwaysOffSampler"),
        ("traceidratio", "0.25", "TraceIdRatioBased{0.25}"),
        ("parentbased_traceidratio", "0.5", "ParentBased{root:TraceIdRatioBased{0.5}"),
        ("parentbased_always_off", "", "ParentBased{root:AlwaysOffSampler"),
    ],
)
def test_the_sampler_is_the_one_that_the_environment_names(name, argument, description):
    environ = {"OTEL_TRACES_SAMPLER": name, "OTEL_TRACES_SAMPLER_ARG": argument}
    assert sampler_from(environ).get_description().startswith(description)


@pytest.mark.parametrize(("name", "argument"), [("sometimes", ""), ("traceidratio", "2"), ("traceidratio", "many")])
def test_an_unknown_sampler_or_rate_is_refused(name, argument):
    with pytest.raises(ConfigError, match="OTEL_TRACES_SAMPLER"):
        sampler_from({"OTEL_TRACES_SAMPLER": name, "OTEL_TRACES_SAMPLER_ARG": argument})


def test_parameters_that_are_off_are_no_attributes():
    assert sampling_attributes(SamplingParams(), 16, None) == {
        "gen_ai.request.temperature": 1.0,
        "gen_ai.request.top_p": 1.0,
        "gen_ai.request.max_tokens": 16,
    }
    attributes = sampling_attributes(SamplingParams(top_k=5, presence_penalty=0.5), 16, seed=0, num_choices=2)
    assert attributes["gen_ai.request.top_k"] == 5
    assert attributes["gen_ai.request.presence_penalty"] == 0.5
    assert attributes["gen_ai.request.seed"] == 0
    assert attributes["gen_ai.request.choice.count"] == 2
