"""Client streams and the server shell, over real sockets."""

import asyncio

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from forerun.errors import ConfigError, ServiceUnavailable
from forerun.rpc import stream as client_stream
from forerun.rpc.clients import DraftClient
from forerun.rpc.messages import Abort, DraftOpen, DraftRequest, Finish, Propose
from forerun.rpc.server import Server, ServerSettings
from forerun.transcript_hash import transcript_hash
from tests.support.scripted_services import ScriptedDraft, serving, silent

IDS = [1, 2, 3]


def ask(k):
    return DraftRequest(propose=Propose(base_len=len(IDS), hash=transcript_hash(IDS), k=k))


def opened():
    return DraftOpen(prompt=IDS, num_prompt_tokens=len(IDS), noise_key=bytes(16))


class Replies:
    """Where a stream delivers to."""

    def __init__(self):
        self.queue = asyncio.Queue()

    async def next(self):
        async with asyncio.timeout(5):
            return await self.queue.get()


@pytest.fixture
async def replies():
    return Replies()


async def connected(address, replies):
    client = DraftClient(address)
    return client, client.open(opened(), replies.queue.put_nowait)


async def test_open_comes_first_and_every_question_is_answered(replies):
    draft = ScriptedDraft()
    async with serving(draft) as address:
        client, stream = await connected(address, replies)
        for k in (1, 4):
            stream.post(ask(k))
            assert len((await replies.next()).proposal.tokens) == k
        stream.end(DraftRequest(finish=Finish()))
        await stream.closed()
        assert (len(draft.seen.opens), draft.seen.num_finished) == (1, 1)
        await client.close()


async def test_a_newer_question_replaces_one_that_is_not_yet_on_its_way(replies):
    draft = ScriptedDraft()
    async with serving(draft) as address:
        client, stream = await connected(address, replies)
        for k in (1, 2, 3):
            stream.post(ask(k))
        assert len((await replies.next()).proposal.tokens) == 3
        assert len(draft.seen.messages) == 1
        stream.end(DraftRequest(abort=Abort()))
        await stream.closed()
        await client.close()


async def test_an_unreachable_service_is_delivered_as_an_error(replies):
    async with serving(ScriptedDraft()) as address:
        pass
    client, stream = await connected(address, replies)
    assert isinstance(await replies.next(), ServiceUnavailable)
    await stream.closed()
    assert replies.queue.empty()
    await client.close()


async def test_a_service_that_stops_is_delivered_as_an_error(replies):
    async with serving(ScriptedDraft(silent)) as address:
        client, stream = await connected(address, replies)
        stream.post(ask(1))
        assert (await replies.next()).proposal.tokens
    assert isinstance(await replies.next(), ServiceUnavailable)
    await client.close()


async def test_nothing_is_delivered_after_the_end(replies):
    async with serving(ScriptedDraft()) as address:
        client, stream = await connected(address, replies)
        stream.post(ask(1))
        stream.end(DraftRequest(abort=Abort()))
        await stream.closed()
        assert replies.queue.empty()
        await client.close()


async def test_a_peer_that_does_not_end_a_finished_stream_is_cut_off(replies, monkeypatch):
    monkeypatch.setattr(client_stream, "END_S", 0.05)

    class Deaf(ScriptedDraft):
        async def Draft(self, request_iterator, context):
            await asyncio.Event().wait()

    async with serving(Deaf()) as address:
        client, stream = await connected(address, replies)
        stream.end(DraftRequest(finish=Finish()))
        async with asyncio.timeout(5):
            await stream.closed()
        await client.close()


async def health_of(address, service=""):
    async with grpc.aio.insecure_channel(address) as channel:
        answer = await health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(service=service))
        return health_pb2.HealthCheckResponse.ServingStatus.Name(answer.status)


async def test_health_says_serving_only_when_told_so():
    server = Server(ServerSettings(), ["forerun.v1.DraftService"])
    address = f"127.0.0.1:{await server.start()}"
    assert await health_of(address) == "NOT_SERVING"
    await server.set_serving(True)
    assert await health_of(address, "forerun.v1.DraftService") == "SERVING"
    await server.drain()


async def test_a_port_that_is_taken_is_a_config_error():
    server = Server(ServerSettings(), [])
    port = await server.start()
    with pytest.raises(ConfigError, match=f":{port}"):
        await Server(ServerSettings(port=port), []).start()
    await server.drain()


async def test_bytes_that_are_no_message_end_a_stream_and_fail_a_question(replies):
    """A peer that speaks gRPC and something else in it."""

    class Garbling(grpc.GenericRpcHandler):
        def service(self, call):
            if call.method.endswith("/Info"):
                return grpc.unary_unary_rpc_method_handler(answer)
            return grpc.stream_stream_rpc_method_handler(answers)

    async def answer(request, context):
        return b"\xff\xff\xff"

    async def answers(requests, context):
        yield b"\xff\xff\xff"
        await asyncio.Event().wait()

    server = grpc.aio.server()
    server.add_generic_rpc_handlers((Garbling(),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    client, _ = await connected(f"127.0.0.1:{port}", replies)
    assert "bytes that are no message" in str(await replies.next())
    with pytest.raises(ServiceUnavailable, match="bytes that are no Info"):
        await client.info()
    await client.close()
    await server.stop(0)


async def test_draining_lets_a_running_stream_end_and_then_stops(replies):
    draft = ScriptedDraft()
    from forerun.v1 import draft_pb2_grpc

    server = Server(ServerSettings(grace_s=5), ["forerun.v1.DraftService"])
    draft_pb2_grpc.add_DraftServiceServicer_to_server(draft, server.grpc_server)
    client, stream = await connected(f"127.0.0.1:{await server.start()}", replies)
    stream.post(ask(1))
    await replies.next()
    draining = asyncio.create_task(server.drain())
    stream.post(ask(2))
    assert len((await replies.next()).proposal.tokens) == 2
    stream.end(DraftRequest(finish=Finish()))
    async with asyncio.timeout(4):
        await draining
    await client.close()
