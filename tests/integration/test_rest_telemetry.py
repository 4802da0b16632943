"""What a request leaves behind: a span under the client's trace, metrics, one log line without a word of the text."""

import asyncio
import logging

import httpx
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from forerun.errors import ServiceUnavailable
from forerun.telemetry import metrics
from forerun.telemetry.exporting import Exporting, sampler_from
from forerun.telemetry.exposition import render
from forerun.telemetry.tracing import Tracing
from gateway.api.core import Core
from gateway.api.observer import TelemetryObserver
from gateway.app import create_app
from tests.support.byte_text import byte_model, byte_text
from tests.support.fake_coordinator import FakeCoordinator
from tests.support.serving import serving

TEXT, MODEL = byte_text(), byte_model()
EOS = MODEL.eos_token_ids[0]
TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
BODY = {"messages": [{"role": "user", "content": "tell nobody"}], "temperature": 0.5, "seed": 3}


class SpanReader(FakeCoordinator):
    """Notes the span that is current where rounds would start."""

    async def run(self, request, sink):
        self.trace_id = trace.get_current_span().get_span_context().trace_id
        return await super().run(request, sink)


class Turnstile:
    """A gate that lets one verdict through at a time."""

    def __init__(self):
        self._tickets = asyncio.Semaphore(0)

    async def wait(self):
        await self._tickets.acquire()

    def pass_one(self):
        self._tickets.release()


class Watched:
    def __init__(self, **more):
        self.spans = InMemorySpanExporter()
        provider = TracerProvider(shutdown_on_exit=False)
        processor = SimpleSpanProcessor(self.spans)
        provider.add_span_processor(processor)
        tracing = Tracing(Exporting(provider.get_tracer("t"), sampler_from({}), processor, self.spans))
        self.registry = metrics.new_registry("gateway")
        observer = TelemetryObserver(tracing, metrics.GatewayMetrics(self.registry))
        self.coordinator = SpanReader(lambda request: [*TEXT.encode("abc"), EOS], **more)
        core = Core(self.coordinator, TEXT, MODEL, observer=observer)
        self.app = create_app(core, metrics=lambda: render(self.registry))

    def value(self, name, **labels):
        return self.registry.get_sample_value(name, labels) or 0.0

    def num_requests(self):
        """(waiting, running)."""
        states = ("waiting", "running")
        return tuple(self.registry.get_sample_value(f"forerun_num_requests_{state}") for state in states)


async def post(watched, body, leave=False):
    async with serving(watched.app) as url, httpx.AsyncClient(base_url=url) as client:
        asking = asyncio.create_task(
            client.post("/v1/chat/completions", json=body, headers={"traceparent": TRACEPARENT})
        )
        if leave:
            await watched.coordinator.started.wait()
            asking.cancel()
            await watched.coordinator.aborted.wait()
            return None, ""
        response = await asking
        return response, (await client.get("/metrics")).text


async def test_the_request_span_continues_the_client_s_trace(caplog):
    watched = Watched()
    with caplog.at_level(logging.INFO, "forerun.request"):
        response, scrape = await post(watched, BODY)
    (span,) = watched.spans.get_finished_spans()
    assert span.name == "chat tiny"
    assert f"{span.context.trace_id:032x}" == TRACEPARENT.split("-")[1]
    assert f"{span.parent.span_id:016x}" == TRACEPARENT.split("-")[2]
    assert span.attributes["gen_ai.request.temperature"] == 0.5
    assert span.attributes["gen_ai.request.seed"] == 3
    assert span.attributes["gen_ai.usage.output_tokens"] == 4
    assert span.attributes["gen_ai.response.finish_reasons"] == ("stop",)
    assert span.attributes["gen_ai.response.id"] == response.json()["id"]
    assert watched.coordinator.trace_id == span.context.trace_id
    assert "gen_ai_server_time_to_first_token_seconds_count" in scrape
    assert watched.value("forerun_generation_tokens_total") == 4
    assert watched.value("forerun_request_success_total", finished_reason="stop") == 1
    assert watched.num_requests() == (0, 0)
    (record,) = [record for record in caplog.records if record.name == "forerun.request"]
    assert record.trace_id == TRACEPARENT.split("-")[1]
    assert "tell nobody" not in str(vars(record))


@pytest.mark.parametrize(
    ("body", "failure", "status", "error"),
    [
        ({**BODY, "temperature": 9}, None, 400, "InvalidRequest"),
        (BODY, ServiceUnavailable("gone"), 503, "ServiceUnavailable"),
    ],
)
async def test_a_request_that_fails_says_so_in_span_and_log(caplog, body, failure, status, error):
    watched = Watched(failure=failure)
    with caplog.at_level(logging.INFO, "forerun.request"):
        response, _ = await post(watched, body)
    (span,) = watched.spans.get_finished_spans()
    assert response.status_code == status
    assert span.attributes["error.type"] == error
    (record,) = [record for record in caplog.records if record.name == "forerun.request"]
    assert (record.status, record.error) == (status, error)
    assert watched.num_requests() == (0, 0)


async def test_a_request_waits_until_its_first_token_and_runs_from_then_on():
    gate = Turnstile()
    watched = Watched(gate=gate)
    asking = asyncio.create_task(post(watched, BODY))
    await watched.coordinator.has_started(1)
    assert watched.num_requests() == (1, 0)
    gate.pass_one()
    async with asyncio.timeout(5):
        while watched.num_requests() != (0, 1):
            await asyncio.sleep(0)
    for _ in range(3):
        gate.pass_one()
    await asking
    assert watched.num_requests() == (0, 0)


async def test_a_client_that_leaves_is_logged_as_cancelled(caplog):
    """Case 25."""
    watched = Watched(gate=asyncio.Event())
    with caplog.at_level(logging.INFO, "forerun.request"):
        await post(watched, BODY, leave=True)
    (record,) = [record for record in caplog.records if record.name == "forerun.request"]
    assert record.error == "cancelled"
    assert watched.num_requests() == (0, 0)
