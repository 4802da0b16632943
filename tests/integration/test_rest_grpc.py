"""gRPC's Generate on a real socket gives what REST gives."""

import asyncio
import math

import grpc
import pytest
from google.rpc import error_details_pb2
from grpc_status import rpc_status

from forerun.errors import Overloaded, ServiceUnavailable
from forerun.v1 import gateway_pb2, gateway_pb2_grpc
from gateway.api import http
from gateway.api.core import Core
from gateway.servicer import GatewayServicer
from tests.support.byte_text import byte_model, byte_text
from tests.support.fake_coordinator import FakeCoordinator, hashed

TEXT, MODEL = byte_text(), byte_model()
EOS = MODEL.eos_token_ids[0]
MIXED = "你好 🤷🏽‍♂️ the hello world"


def saying(text, **more):
    return FakeCoordinator(lambda request: [*TEXT.encode(text), EOS], **more)


@pytest.fixture
async def connect():
    """Starts a server for a coordinator and gives a stub; both end with the test."""
    opened = []

    async def start(coordinator, core=None):
        server = grpc.aio.server()
        core = core or Core(coordinator, TEXT, MODEL)
        gateway_pb2_grpc.add_GatewayServiceServicer_to_server(GatewayServicer(core), server)
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        fixed_window = [("grpc.http2.bdp_probe", 0)]
        channel = grpc.aio.insecure_channel(f"127.0.0.1:{port}", fixed_window)
        opened.append((channel, server))
        return gateway_pb2_grpc.GatewayServiceStub(channel)

    yield start
    for channel, server in opened:
        await channel.close()
        await server.stop(0)


async def generate(stub, **fields):
    """Returns ({choice: text}, {choice: ids}, {choice: reason}, the last message)."""
    texts, ids, reasons, last = {}, {}, {}, None
    async for last in stub.Generate(gateway_pb2.GenerateRequest(**fields)):
        if last.HasField("usage"):
            break
        texts[last.index] = texts.get(last.index, "") + last.text
        ids.setdefault(last.index, []).extend(last.token_ids)
        if last.finish_reason:
            reasons[last.index] = last.finish_reason
    return texts, ids, reasons, last


async def test_a_text_is_continued_and_accounted_for(connect):
    """Cases 14, 23 and 24."""
    stub = await connect(saying(MIXED, run_len=3))
    texts, ids, reasons, last = await generate(stub, text="hi", max_tokens=200)
    assert (texts, reasons) == ({0: MIXED}, {0: "stop"})
    assert ids[0] == [*TEXT.encode(MIXED), EOS]
    assert last.usage.completion_tokens == len(ids[0])
    assert last.speculative.num_drafts > 0


async def test_chats_ids_and_choices_work(connect):
    """Case 21."""
    coordinator = FakeCoordinator(hashed(256))
    stub = await connect(coordinator)
    chat = gateway_pb2.Chat(messages=[gateway_pb2.ChatMessage(role="user", content="hi")])
    texts, _, _, last = await generate(stub, chat=chat, n=3, seed=-5, max_tokens=9)
    assert len(set(texts.values())) == 3
    assert last.usage.completion_tokens == 27
    assert coordinator.requests[0].seed == (1 << 64) - 5
    await generate(stub, tokens=gateway_pb2.TokenIds(ids=[5, 6]), temperature=0.0, max_tokens=2)
    assert coordinator.requests[-1].prompt == (5, 6)


async def test_a_stop_string_cuts_exactly(connect):
    """Case 13."""
    stub = await connect(saying("before<STOP>after", run_len=4))
    texts, _, reasons, _ = await generate(stub, text="hi", stop=["<STOP>"], max_tokens=50)
    assert (texts, reasons) == ({0: "before"}, {0: "stop"})


async def test_echo_brings_the_prompt_with_its_laws(connect):
    stub = await connect(saying("x"))
    request = gateway_pb2.GenerateRequest(text="abc", echo=True, logprobs=1, max_tokens=0)
    first = await anext(aiter(stub.Generate(request)))
    ids = TEXT.encode("abc")
    assert (first.text, list(first.token_ids)) == ("abc", ids)
    assert math.isnan(first.logprobs[0].logprob)
    assert [entry.logprob for entry in first.logprobs[1:]] == pytest.approx([-token / 1000 for token in ids[1:]])


@pytest.mark.parametrize(
    ("fields", "code", "param"),
    [
        ({"text": "a", "temperature": 9.0}, grpc.StatusCode.INVALID_ARGUMENT, "temperature"),
        ({"text": "a", "max_tokens": 999}, grpc.StatusCode.INVALID_ARGUMENT, "max_tokens"),
        ({}, grpc.StatusCode.INVALID_ARGUMENT, "prompt"),
        ({"text": "a", "model": "gpt-9"}, grpc.StatusCode.NOT_FOUND, "model"),
    ],
)
async def test_a_wrong_request_ends_with_a_rich_status_that_names_the_field(connect, fields, code, param):
    stub = await connect(saying("x"))
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await generate(stub, **fields)
    assert caught.value.code() is code
    details = error_details_pb2.BadRequest()
    assert rpc_status.from_call(caught.value).details[0].Unpack(details)
    assert details.field_violations[0].field == param


@pytest.mark.parametrize(
    ("failure", "code"),
    [
        (Overloaded("full"), grpc.StatusCode.RESOURCE_EXHAUSTED),
        (ServiceUnavailable("gone"), grpc.StatusCode.UNAVAILABLE),
        (ValueError("secret"), grpc.StatusCode.INTERNAL),
    ],
)
async def test_a_failure_has_its_status_code(connect, failure, code):
    stub = await connect(saying("abc", failure=failure, fail_at=2))
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await generate(stub, text="hi")
    assert caught.value.code() is code
    assert "secret" not in caught.value.details()


async def test_a_cancelled_call_aborts_its_choice(connect):
    """Case 25."""
    coordinator = saying("abc", gate=asyncio.Event())
    stub = await connect(coordinator)
    call = stub.Generate(gateway_pb2.GenerateRequest(text="hi"))
    reading = asyncio.create_task(anext(aiter(call)))
    await coordinator.started.wait()
    call.cancel()
    await asyncio.wait_for(coordinator.aborted.wait(), 1)
    with pytest.raises(asyncio.CancelledError):
        await reading
    assert coordinator.num_running == 0


async def read_once(connect):
    """A call for a long text of which the client took the first piece alone, and the gateway's Core."""
    coordinator = FakeCoordinator(lambda request: [*TEXT.encode("abcd")] * 200_000, run_len=2_000)
    core = Core(coordinator, TEXT, byte_model(max_model_len=1_000_000))
    stub = await connect(coordinator, core)
    call = stub.Generate(gateway_pb2.GenerateRequest(model="tiny", text="x", max_tokens=800_000))
    await call.read()
    return call, core


async def test_a_client_that_stops_reading_is_not_waited_for_for_ever(connect, monkeypatch):
    monkeypatch.setattr(http, "STALLED_S", 0.5)
    call, core = await read_once(connect)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(core.admission.idle(), 0.3)
    await asyncio.wait_for(core.admission.idle(), 20)
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        while await call.read() is not grpc.aio.EOF:
            pass
    assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED


async def test_a_client_that_leaves_while_it_does_not_read_is_no_fault_of_ours(connect, caplog):
    call, core = await read_once(connect)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(core.admission.idle(), 0.5)
    call.cancel()
    await asyncio.wait_for(core.admission.idle(), 20)
    assert not [record for record in caplog.records if record.levelname in ("ERROR", "CRITICAL")]
