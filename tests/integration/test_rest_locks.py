"""Keys and limits at the two faces, on real sockets; the coordinator is a fake."""

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace

import grpc
import httpx
import openai
import pytest

from forerun.types import Verification
from forerun.v1 import gateway_pb2, gateway_pb2_grpc
from gateway.api.clients import Clients
from gateway.api.core import Core
from gateway.api.keys import ApiKeys
from gateway.api.limits import Limits
from gateway.app import create_app
from gateway.servicer import GatewayServicer
from tests.support.byte_text import byte_model, byte_text
from tests.support.fake_coordinator import FakeCoordinator
from tests.support.serving import serving

TEXT, MODEL = byte_text(), byte_model()
EOS = MODEL.eos_token_ids[0]
ONE, TWO = "sk-one-aaaaaaaaaaaa", "sk-two-bbbbbbbbbbbb"
HI = {"prompt": "hi", "max_tokens": 4}
OPEN = ("/health", "/ready", "/metrics", "/version")


def saying(text, **more):
    return FakeCoordinator(lambda request: [*TEXT.encode(text), EOS], **more)


def bearer(key):
    return {"authorization": f"Bearer {key}"}


@pytest.fixture
def keys(tmp_path):
    path = tmp_path / "keys"
    path.write_text(f"{ONE}\n{TWO}\n")
    return ApiKeys(str(path))


@asynccontextmanager
async def house(coordinator=None, **more):
    """A client of a served core, and the core."""
    core = Core(coordinator or saying("x"), TEXT, MODEL, **more)
    async with serving(create_app(core)) as url, httpx.AsyncClient(base_url=url, timeout=20) as http:
        yield http, core


@asynccontextmanager
async def grpc_house(core):
    server = grpc.aio.server()
    gateway_pb2_grpc.add_GatewayServiceServicer_to_server(GatewayServicer(core), server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        yield gateway_pb2_grpc.GatewayServiceStub(channel)
    await server.stop(0)


async def generate(stub, *keys):
    request = gateway_pb2.GenerateRequest(text="hi", max_tokens=4)
    return [piece async for piece in stub.Generate(request, metadata=[("authorization", f"Bearer {k}") for k in keys])]


@pytest.mark.parametrize("path", ["/v1/completions", "/v1/models", "/tokenize", "/docs", "/openapi.json", "/nowhere"])
@pytest.mark.parametrize("shown", [{}, bearer("sk-of-somebody-else"), {"authorization": f"Basic {ONE}"}])
async def test_without_a_known_key_only_the_open_paths_answer(keys, path, shown):
    async with house(clients=Clients(keys)) as (http, core):
        answer = await http.request("POST" if path == "/v1/completions" else "GET", path, headers=shown)
        assert answer.status_code == 401
        error = answer.json()["error"]
        assert (error["type"], error["code"], error["param"]) == ("invalid_request_error", "invalid_api_key", None)
        assert "somebody" not in answer.text and ONE not in answer.text
        assert answer.headers["www-authenticate"] == "Bearer"
        for open_path in OPEN:
            assert (await http.get(open_path)).status_code == 200
        assert not [request for request in core._coordinator.requests if len(request.prompt) > 1]


async def test_the_official_client_passes_with_its_key_and_is_told_without(keys):
    async with house(clients=Clients(keys)) as (http, _):
        for key, raised in ((ONE, None), (TWO, None), ("sk-" + "x" * 20, openai.AuthenticationError)):
            client = openai.AsyncOpenAI(base_url=f"{http.base_url}/v1", api_key=key, max_retries=0)
            try:
                if raised is None:
                    assert (await client.completions.create(model="tiny", prompt="hi")).choices[0].text == "x"
                else:
                    with pytest.raises(raised):
                        await client.completions.create(model="tiny", prompt="hi")
            finally:
                await client.close()


async def test_grpc_asks_for_the_same_keys(keys):
    core = Core(saying("x"), TEXT, MODEL, clients=Clients(keys))
    async with grpc_house(core) as stub:
        assert (await generate(stub, ONE))[0].text == "x"
        for shown in ((), ("sk-of-somebody-else",)):
            with pytest.raises(grpc.aio.AioRpcError) as refusal:
                await generate(stub, *shown)
            assert refusal.value.code() is grpc.StatusCode.UNAUTHENTICATED
    assert len(core._coordinator.requests) == 1


async def test_caches_are_parted_by_key_whatever_salt_a_client_asks_for(keys):
    coordinator = saying("x")
    async with house(coordinator, clients=Clients(keys)) as (http, core):
        for key in (ONE, TWO):
            for salt in ({}, {"cache_salt": "ours"}, {"cache_salt": TWO}):
                await http.post("/v1/completions", json={**HI, **salt}, headers=bearer(key))
        async with grpc_house(core) as stub:
            await generate(stub, ONE)
    salts = [request.cache_salt for request in coordinator.requests]
    assert len(set(salts[:6])) == 6 and "" not in salts
    assert salts[6] == salts[0], "one key is one tenant on both faces"
    assert not any(key in salt for key in (ONE, TWO) for salt in salts)


async def test_a_key_has_so_many_requests_at_once(keys):
    gate = asyncio.Event()
    async with house(saying("x", gate=gate), clients=Clients(keys, max_requests=1)) as (http, core):
        first = asyncio.create_task(http.post("/v1/completions", json=HI, headers=bearer(ONE)))
        await core._coordinator.has_started(1)
        refused = await http.post("/v1/completions", json=HI, headers=bearer(ONE))
        assert (refused.status_code, refused.json()["error"]["type"]) == (429, "rate_limit_error")
        assert int(refused.headers["retry-after"]) >= 1
        other = asyncio.create_task(http.post("/v1/completions", json=HI, headers=bearer(TWO)))
        gate.set()
        assert (await other).status_code == (await first).status_code == 200
        assert (await http.post("/v1/completions", json=HI, headers=bearer(ONE))).status_code == 200


LIMITS = Limits(prompt_tokens=8, output_tokens=40, logprobs=60, choices=4, stops=2, logit_bias=2)


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"prompt": "a" * 9}, "prompt"),
        ({"n": 4, "max_tokens": 11}, "max_tokens"),
        ({"prompt": ["a"] * 4, "max_tokens": 11}, "max_tokens"),
        ({"max_tokens": 16, "logprobs": 3}, "logprobs"),
        ({"prompt": "a" * 8, "max_tokens": 0, "echo": True, "logprobs": 7}, "logprobs"),
        ({"prompt": "a" * 8, "n": 4, "max_tokens": 1, "echo": True, "logprobs": 1}, "logprobs"),
        ({"n": 5}, "n"),
        ({"n": 2, "prompt": ["a"] * 3}, "n"),
        ({"stop": ["a", "b", "c"]}, "stop"),
        ({"logit_bias": {"1": 1, "2": 1, "3": 1}}, "logit_bias"),
    ],
)
async def test_what_one_request_asks_for_is_bounded_and_the_parameter_is_named(fields, param):
    async with house(limits=LIMITS) as (http, core):
        refused = await http.post("/v1/completions", json={**HI, **fields})
        assert (refused.status_code, refused.json()["error"]["param"]) == (400, param)
        assert not core._coordinator.requests


@pytest.mark.parametrize(
    "fields",
    [
        {"prompt": "a" * 8},
        {"n": 4, "max_tokens": 10},
        {"max_tokens": 15, "logprobs": 3},
        {"prompt": "a" * 8, "max_tokens": 2, "n": 3, "echo": True, "logprobs": 1},
        {"stop": ["a", "b"], "logit_bias": {"1": 1, "2": 1}},
    ],
)
async def test_just_within_the_bounds_it_is_served(fields):
    async with house(limits=LIMITS) as (http, _):
        assert (await http.post("/v1/completions", json={**HI, **fields})).status_code == 200


@pytest.mark.parametrize("stream", [False, True])
async def test_a_request_that_does_not_begin_in_time_is_told_to_come_back(stream):
    gate = asyncio.Event()
    async with house(saying("x", gate=gate), limits=Limits(queue_s=0.1)) as (http, core):
        refused = await http.post("/v1/completions", json={**HI, "stream": stream})
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
        assert core._coordinator.num_running == 0
        gate.set()
        assert (await http.post("/v1/completions", json={**HI, "stream": stream})).status_code == 200


async def test_one_that_has_begun_is_not_cut_off_by_the_queues_deadline():
    """The second of two verdicts comes long after it."""

    class Late:
        num_waits = 0

        async def wait(self):
            self.num_waits += 1
            await asyncio.sleep(0.4 if self.num_waits > 1 else 0)

    async with house(saying("xy", gate=Late()), limits=Limits(queue_s=0.2)) as (http, _):
        answer = await http.post("/v1/completions", json={**HI, "max_tokens": 2})
        assert answer.json()["choices"][0]["text"] == "xy"


async def test_while_draining_new_requests_get_a_503_and_running_ones_their_text():
    gate = asyncio.Event()
    async with house(saying("x", gate=gate)) as (http, core):
        running = asyncio.create_task(http.post("/v1/completions", json=HI))
        await core._coordinator.has_started(1)
        core.admission.drain()
        for path in ("/v1/completions", "/v1/chat/completions"):
            body = HI if path == "/v1/completions" else {"messages": [{"role": "user", "content": "hi"}]}
            refused = await http.post(path, json=body)
            assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
        assert (await http.get("/ready")).status_code == 503
        assert (await http.get("/health")).status_code == 200
        gate.set()
        assert (await running).json()["choices"][0]["text"] == "x"
        async with asyncio.timeout(5):
            await core.admission.idle()


async def test_a_body_that_drips_is_given_up():
    async with house(limits=Limits(body_s=0.1)) as (http, _):
        reader, writer = await asyncio.open_connection(http.base_url.host, http.base_url.port)
        writer.write(b"POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 1000\r\n\r\n ")
        async with asyncio.timeout(5):
            answer = await reader.read()  # to the end: the connection is closed
        assert answer.startswith(b"HTTP/1.1 408") and b"request_timeout" in answer
        writer.close()


@pytest.mark.parametrize("trusted", [True, False])
async def test_where_drafts_are_not_trusted_what_is_sampled_is_verified_by_match(trusted):
    """A request that insists on another rule gets it, from a coordinator that then leaves the draft out."""
    sampled_rule = Verification.REJECTION if trusted else Verification.MATCH
    core = Core(saying("x"), TEXT, replace(MODEL, sampled_rule=sampled_rule))
    async with serving(create_app(core)) as url, httpx.AsyncClient(base_url=url) as http:
        for fields in ({}, {"seed": 1}, {"temperature": 0}, {"speculative": {"verification": "block"}}):
            await http.post("/v1/completions", json={**HI, "temperature": 1, **fields})
    rules = [request.params.verification for request in core._coordinator.requests]
    assert rules == [sampled_rule, Verification.MATCH, Verification.MATCH, Verification.BLOCK]
