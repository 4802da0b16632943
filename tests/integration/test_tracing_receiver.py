"""Spans through the real exporter into a real OTLP receiver."""

import socket
import threading
import time

import pytest

from forerun.telemetry import semconv, tracing
from forerun.telemetry.context import remote_context, span_id_of, traceparent_of
from forerun.telemetry.semconv import sampling_attributes
from forerun.telemetry.summary import RequestSummary
from forerun.types import SamplingParams
from tests.support.otlp import otlp_receiver

CLIENT_TRACE, CLIENT_SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
UNSAMPLED_CLIENT = f"00-{CLIENT_TRACE}-{CLIENT_SPAN}-00"
SAMPLED_CLIENT = f"00-{CLIENT_TRACE}-{CLIENT_SPAN}-01"
SUMMARY = RequestSummary(
    request_id="r-1",
    operation="chat",
    model="tiny",
    duration_s=0.5,
    time_to_first_token_s=0.1,
    finish_reasons=("stop",),
    num_prompt_tokens=7,
    num_generated_tokens=3,
)


@pytest.fixture
def receiver(monkeypatch):
    for name in ("OTEL_TRACES_SAMPLER", "OTEL_TRACES_SAMPLER_ARG", "OTEL_SDK_DISABLED", "OTEL_SERVICE_NAME"):
        monkeypatch.delenv(name, raising=False)
    with otlp_receiver() as running:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", running.endpoint)
        yield running


@pytest.fixture
def services(receiver):
    running = {name: tracing.setup(f"forerun-{name}") for name in ("gateway", "draft", "target")}
    yield running
    for service in running.values():
        service.shutdown()


def _serve_round(services, request, base_len):
    """One round as the three processes record it; returns the span contexts of propose and verify."""
    gateway, metadata = services["gateway"], traceparent_of(request)
    round_span = gateway.start_round(request, base_len)
    served = []
    for service, name in (("draft", semconv.SPAN_PROPOSE), ("target", semconv.SPAN_VERIFY)):
        parent = remote_context(metadata, span_id_of(round_span))
        span = services[service].start_served(name, parent, time.time_ns())
        served.append(span.get_span_context())
        # The device thread ends what the event loop started.
        thread = threading.Thread(target=span.end)
        thread.start()
        thread.join()
    gateway.end_round(round_span, num_draft_tokens=4, num_accepted_tokens=3, draft_wait_s=0.002, target_wait_s=0.03)
    return served


def _shut_down(services):
    for service in services.values():
        service.shutdown()


def test_one_trace_holds_the_request_its_rounds_and_what_both_services_did_for_them(services, receiver):
    request = services["gateway"].start_request(
        "chat", "tiny", attributes=sampling_attributes(SamplingParams(temperature=0.5), max_tokens=16, seed=3)
    )
    for base_len in (7, 11):
        _serve_round(services, request, base_len)
    services["gateway"].end_request(request, SUMMARY)
    _shut_down(services)
    spans = receiver.wait_for(lambda spans: len(spans) == 7)
    (tree,) = receiver.trees(spans[0].trace_id)
    rounds = ("forerun.round", [("forerun.propose", []), ("forerun.verify", [])])
    assert tree.names() == ("chat tiny", [rounds, rounds])
    assert {span.name: span.service for span in tree.walk()} == {
        "chat tiny": "forerun-gateway",
        "forerun.round": "forerun-gateway",
        "forerun.propose": "forerun-draft",
        "forerun.verify": "forerun-target",
    }
    assert tree.span.resource["service.version"]
    assert tree.span.attributes["gen_ai.request.temperature"] == 0.5
    assert tree.span.attributes["gen_ai.request.seed"] == 3
    assert tree.span.attributes["gen_ai.response.finish_reasons"] == ["stop"]
    assert tree.span.attributes["gen_ai.usage.input_tokens"] == 7
    assert tree.span.attributes["gen_ai.usage.output_tokens"] == 3
    assert tree.children[1].span.attributes == {
        "forerun.base_len": 11,
        "forerun.choice": 0,
        "forerun.num_draft_tokens": 4,
        "forerun.num_accepted_tokens": 3,
        "forerun.drafted_ahead": False,
        "forerun.drafter": "service",
        "forerun.draft_wait_s": 0.002,
        "forerun.target_wait_s": 0.03,
    }


def test_a_step_links_to_every_request_that_it_served(services, receiver):
    requests = [services["gateway"].start_request("chat", "tiny") for _ in range(150)]
    verified = [_serve_round(services, request, 7)[1] for request in requests]
    now = time.time_ns()
    services["target"].step_tracer().on_step(
        now - 1000, now, num_rows=750, num_sequences=151, contexts=[*verified, None]
    )
    _shut_down(services)
    receiver.wait_for(lambda spans: any(span.name == "forerun.step" for span in spans))
    (step,) = receiver.named("forerun.step")
    assert step.links == {(f"{context.trace_id:032x}", f"{context.span_id:016x}") for context in verified}
    assert step.dropped_links == 0
    assert (step.parent_id, step.start_ns, step.end_ns) == ("", now - 1000, now)
    assert step.attributes == {"forerun.num_rows": 750, "forerun.num_sequences": 151}


@pytest.mark.parametrize("traceparent", [UNSAMPLED_CLIENT, SAMPLED_CLIENT])
def test_a_clients_trace_is_continued_whatever_its_sampled_flag_says(services, receiver, traceparent):
    request = services["gateway"].start_request("chat", "tiny", traceparent)
    services["gateway"].end_request(request, SUMMARY)
    _shut_down(services)
    (span,) = receiver.wait_for(lambda spans: len(spans) == 1)
    assert (span.trace_id, span.parent_id) == (CLIENT_TRACE, CLIENT_SPAN)


@pytest.mark.parametrize(
    "sampler", ["always_off", "parentbased_always_off", "traceidratio", "parentbased_traceidratio"]
)
def test_a_client_cannot_switch_on_what_the_operator_switched_off(receiver, monkeypatch, sampler):
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", sampler)
    monkeypatch.setenv("OTEL_TRACES_SAMPLER_ARG", "0")
    gateway = tracing.setup("forerun-gateway")
    request = gateway.start_request("chat", "tiny", SAMPLED_CLIENT)
    round_span = gateway.start_round(request, 7)
    assert not request.is_recording()
    assert not round_span.is_recording()
    assert (traceparent_of(request), span_id_of(round_span)) == (None, 0)
    gateway.end_request(request, SUMMARY)
    gateway.shutdown()
    assert receiver.spans == []


def test_a_step_is_recorded_for_a_sampled_request_even_where_a_ratio_would_drop_it(receiver, monkeypatch):
    gateway = tracing.setup("forerun-gateway")
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "parentbased_traceidratio")
    monkeypatch.setenv("OTEL_TRACES_SAMPLER_ARG", "0")
    services = {"gateway": gateway, "draft": tracing.setup("draft"), "target": tracing.setup("target")}
    contexts = _serve_round(services, gateway.start_request("chat", "tiny"), 7)
    services["target"].step_tracer().on_step(1000, 2000, 5, 1, contexts[1:])
    _shut_down(services)
    receiver.wait_for(lambda spans: any(span.name == "forerun.step" for span in spans))


def test_an_error_of_ours_marks_the_span_and_a_clients_mistake_does_not(services, receiver):
    for status, error in ((503, "ServiceUnavailable"), (400, "InvalidRequest")):
        summary = RequestSummary("r", "chat", "tiny", 0.1, status=status, error=error)
        services["gateway"].end_request(services["gateway"].start_request("chat", "tiny"), summary)
    _shut_down(services)
    spans = receiver.wait_for(lambda spans: len(spans) == 2)
    assert {span.attributes["error.type"]: span.status for span in spans} == {
        "ServiceUnavailable": 2,
        "InvalidRequest": 0,
    }


def test_the_environments_service_name_wins(receiver, monkeypatch):
    monkeypatch.setenv("OTEL_SERVICE_NAME", "mine")
    gateway = tracing.setup("forerun-gateway")
    gateway.start_request("chat", "tiny").end()
    gateway.shutdown()
    (span,) = receiver.wait_for(lambda spans: len(spans) == 1)
    assert span.service == "mine"


def test_a_collector_that_never_answers_does_not_hold_the_shutdown(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{silent.getsockname()[1]}")
        gateway = tracing.setup("forerun-gateway")
        gateway.start_request("chat", "tiny").end()
        started = time.monotonic()
        gateway.shutdown(timeout_s=0.2)
        assert time.monotonic() - started < 5
