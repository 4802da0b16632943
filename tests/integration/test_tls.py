"""Mutual TLS on real sockets: the right certificate passes, a stranger, an expired and a wrong name do not."""

import asyncio
import datetime
from contextlib import asynccontextmanager

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from forerun.errors import ConfigError, ServiceUnavailable
from forerun.rpc.certificates import LOOK_EVERY_S, Certificates, certificates, public_certificates
from forerun.rpc.channels import PeerTls
from forerun.rpc.clients import TargetClient
from forerun.rpc.messages import Finish, TargetOpen, TargetRequest, Verify
from forerun.rpc.server import Server, ServerSettings
from forerun.transcript_hash import transcript_hash
from forerun.v1 import target_pb2_grpc
from tests.support.certificates import Authority, replace
from tests.support.ports import free_ports
from tests.support.scripted_services import ScriptedTarget, continuation

EXPIRED = -datetime.timedelta(minutes=5)
SERVER, CLIENT = "target.forerun.svc", "gateway.forerun.svc"


class Clock:
    """Goes on by itself only as told."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def ca(tmp_path):
    return Authority(tmp_path)


@pytest.fixture
def stranger(tmp_path):
    return Authority(tmp_path, "stranger")


@asynccontextmanager
async def target(files, clock=None, **settings):
    """A target that shows `files` and asks for a certificate of their CA."""
    tls = Certificates(files, clock or Clock())
    server = Server(ServerSettings(grace_s=0, tls=tls, **settings), ["forerun.v1.TargetService"])
    servicer = ScriptedTarget()
    target_pb2_grpc.add_TargetServiceServicer_to_server(servicer, server.grpc_server)
    port = await server.start()
    await server.set_serving(True)
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await server.drain()


@asynccontextmanager
async def gateway(address, files, clock=None, name=SERVER):
    """A client that shows `files`, or speaks no TLS where there are none."""
    tls = PeerTls(Certificates(files, clock or Clock()), name) if files else None
    client = TargetClient(address, tls=tls)
    try:
        yield client
    finally:
        await client.close()


async def refused(address, files, **more):
    async with gateway(address, files, **more) as client:
        with pytest.raises(ServiceUnavailable) as refusal:
            await client.info(1.0)
    return str(refusal.value)


async def test_the_right_certificates_pass(ca):
    async with target(ca.files(SERVER)) as address, gateway(address, ca.files(CLIENT)) as client:
        assert (await client.info()).service == "target"


async def test_a_client_without_or_with_a_strangers_or_an_expired_certificate_is_refused(ca, stranger):
    async with target(ca.files(SERVER)) as address:
        await refused(address, None)
        await refused(address, stranger.files(CLIENT, trusts=ca))
        await refused(address, ca.files(CLIENT, expires_in=EXPIRED))
        async with gateway(address, ca.files(CLIENT)) as client:
            await client.info()


@pytest.mark.parametrize("wrong", ["stranger", "expired", "name"])
async def test_a_server_that_is_a_stranger_expired_or_another_is_not_spoken_to(ca, stranger, wrong):
    files = {
        "stranger": lambda: stranger.files(SERVER, trusts=ca),
        "expired": lambda: ca.files(SERVER, expires_in=EXPIRED),
        "name": lambda: ca.files("draft.forerun.svc"),
    }[wrong]()
    async with target(files) as address:
        await refused(address, ca.files(CLIENT))


async def test_without_another_name_the_certificate_has_to_bear_the_host_of_the_address(ca):
    async with target(ca.files("127.0.0.1")) as address, gateway(address, ca.files(CLIENT), name="") as client:
        assert (await client.info()).service == "target"
    async with target(ca.files(SERVER)) as address:
        await refused(address, ca.files(CLIENT), name="")


async def test_of_one_ca_only_the_named_clients_may_call_any_kind_of_method(ca):
    async with target(ca.files(SERVER), client_names=(CLIENT,)) as address:
        assert "name may not call" in await refused(address, ca.files("draft.forerun.svc"))
        async with gateway(address, ca.files("draft.forerun.svc")) as client:
            replies = asyncio.Queue()
            client.open(TargetOpen(prompt=[1]), replies.put_nowait)
            assert "name may not call" in str(await asyncio.wait_for(replies.get(), 5))
        async with gateway(address, ca.files(CLIENT)) as client:
            await client.info()
            assert await one_token(client) == continuation([1, 2], 1)


async def one_token(client):
    replies = asyncio.Queue()
    stream = client.open(TargetOpen(prompt=[1, 2], num_prompt_tokens=2), replies.put_nowait)
    stream.post(TargetRequest(verify=Verify(base_len=2, hash=transcript_hash([1, 2]))))
    reply = await asyncio.wait_for(replies.get(), 5)
    stream.end(TargetRequest(finish=Finish()))
    return [reply.verdict.token]


async def test_a_renewed_certificate_of_the_server_is_shown_without_a_restart(ca):
    clock, files = Clock(), ca.files(SERVER, expires_in=EXPIRED)
    async with target(files, clock) as address:
        await refused(address, ca.files(CLIENT))
        replace(files, ca.files(SERVER, stem="renewed"))
        clock.now += LOOK_EVERY_S
        async with gateway(address, ca.files(CLIENT)) as client:
            assert (await client.info()).service == "target"


async def test_a_renewed_certificate_of_the_client_is_used_for_new_calls_and_the_running_ones_go_on(ca, stranger):
    clock, files, replies = Clock(), ca.files(CLIENT), asyncio.Queue()
    async with target(ca.files(SERVER)) as address, gateway(address, files, clock) as client:
        stream = client.open(TargetOpen(prompt=[1, 2], num_prompt_tokens=2), replies.put_nowait)
        await client.info()
        replace(files, stranger.files(CLIENT, stem="not-renewed"))
        clock.now += LOOK_EVERY_S
        with pytest.raises(ServiceUnavailable):
            await client.info(1.0)
        replace(files, ca.files(CLIENT, stem="renewed"))
        clock.now += LOOK_EVERY_S
        assert (await client.info()).service == "target"
        stream.post(TargetRequest(verify=Verify(base_len=2, hash=transcript_hash([1, 2]))))
        reply = await asyncio.wait_for(replies.get(), 5)
        assert [reply.verdict.token] == continuation([1, 2], 1)
        stream.end(TargetRequest(finish=Finish()))


def test_a_change_that_cannot_be_used_leaves_the_last_certificate_in_place(ca, caplog):
    clock, files = Clock(), ca.files(SERVER)
    shown = Certificates(files, clock)
    first = shown.current()
    other = ca.files("other")
    with open(files.key, "wb") as key, open(other.key, "rb") as others_key:
        key.write(others_key.read())
    clock.now += LOOK_EVERY_S
    assert shown.current() is first
    assert "going on with the last certificate" in caplog.text
    replace(files, other)
    clock.now += LOOK_EVERY_S
    assert shown.current() is not first


async def test_probes_that_speak_no_tls_have_a_port_of_their_own_for_health_alone(ca):
    (port,) = free_ports(1)
    async with target(ca.files(SERVER), health_port=port):
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            reply = await health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest())
            assert reply.status == health_pb2.HealthCheckResponse.SERVING
        async with gateway(f"127.0.0.1:{port}", None) as client:
            with pytest.raises(ServiceUnavailable, match="not found"):
                await client.info()


def test_flags_that_cannot_work_are_named(ca, tmp_path):
    files = ca.files(SERVER)
    with pytest.raises(ConfigError, match="--tls-ca is missing"):
        certificates(files.cert, files.key, "")
    with pytest.raises(ConfigError, match="--public-tls-cert and --public-tls-key go together"):
        public_certificates(files.cert, "")
    with pytest.raises(ConfigError, match=r"--tls-cert .* cannot be used"):
        certificates(files.cert, ca.files("other").key, files.ca)
    with pytest.raises(ConfigError, match=r"--tls-.*nowhere\.pem"):
        certificates(files.cert, files.key, str(tmp_path / "nowhere.pem"))
    with pytest.raises(ConfigError, match="--tls-client-names needs"):
        ServerSettings(client_names=("a",))
    assert certificates("", "", "") is None and public_certificates("", "") is None
