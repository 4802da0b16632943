"""A canary goes through every path, the refused and the failing ones too, and is found in no log, span or error."""

import asyncio
import contextlib
import json
import signal
import socket

import grpc
import httpx
import pytest

from forerun.rpc.clients import DraftClient, TargetClient
from forerun.rpc.messages import DraftOpen, Propose, TargetOpen, Verify
from forerun.v1 import draft_pb2, gateway_pb2, gateway_pb2_grpc, target_pb2
from tests.support.otlp import otlp_receiver
from tests.support.processes import TINY, Gateway

WORD = "qzxjkvqzx"
IDS = [37, 41, 43, 38, 42, 39, 45, 40]
SHOWN_IDS = (", ".join(map(str, IDS[:4])), ",".join(map(str, IDS[:4])), " ".join(map(str, IDS[:4])))
CHAT = {"messages": [{"role": "user", "content": WORD}], "max_tokens": 12, "ignore_eos": True}
TEXT = {"prompt": WORD, "max_tokens": 12, "ignore_eos": True}
TOKENS = {**TEXT, "prompt": IDS}
SERVED = [
    ("/v1/chat/completions", CHAT),
    ("/v1/chat/completions", {**CHAT, "stream": True, "logprobs": True, "top_logprobs": 2, "n": 2, "seed": 3}),
    ("/v1/completions", {**TEXT, "echo": True, "logprobs": 2, "max_tokens": 4}),
    ("/v1/completions", {**TOKENS, "stop": [WORD], "temperature": 0, "cache_salt": WORD, "user": WORD}),
    ("/v1/completions", {**TOKENS, "return_token_ids": True, "speculative": {"num_draft_tokens": 3}}),
    ("/tokenize", {"prompt": WORD, "return_token_strs": True}),
    ("/detokenize", {"tokens": IDS}),
]
REFUSED = [
    ("/v1/completions", {**TEXT, "prompt": WORD * 400}),
    ("/v1/completions", {**TEXT, "prompt": WORD + "\ud800"}),
    ("/v1/completions", {**TEXT, "prompt": [*IDS, WORD]}),
    ("/v1/completions", {**TEXT, "prompt": [*IDS, 10**6]}),
    ("/v1/completions", {**TEXT, "prompt": {"text": WORD}}),
    ("/v1/completions", {**TEXT, "max_tokens": WORD}),
    ("/v1/completions", {**TEXT, "stop": [WORD * 200]}),
    ("/v1/completions", {**TEXT, "stop": {"at": WORD}}),
    ("/v1/completions", {**TEXT, "logit_bias": {WORD: 1}}),
    ("/v1/completions", {**TEXT, "suffix": WORD}),
    ("/v1/completions", {**TEXT, "response_format": {"type": WORD}}),
    ("/v1/completions", {**TEXT, "speculative": {"verification": WORD}}),
    ("/v1/chat/completions", {**CHAT, "messages": [{"role": WORD, "content": WORD}]}),
    ("/v1/chat/completions", {**CHAT, "messages": [{"role": "user", "content": [{"type": WORD, "text": WORD}]}]}),
    ("/v1/chat/completions", {**CHAT, "messages": WORD}),
    ("/v1/chat/completions", {**CHAT, "tools": [{"name": WORD}]}),
    ("/v1/chat/completions", {**CHAT, "chat_template_kwargs": {"messages": WORD}}),
    ("/detokenize", {"tokens": [*IDS, WORD]}),
]


class House:
    """Three processes that log all they can and trace every request."""

    def __init__(self, fleet, pair, receiver):
        self.receiver = receiver
        environ = {"OTEL_EXPORTER_OTLP_ENDPOINT": receiver.endpoint, "OTEL_BSP_SCHEDULE_DELAY": "100"}
        flags = (*TINY, "--log-level", "DEBUG")
        draft = ("--model", pair.draft, "--target-model", pair.target)
        self.targets = [
            fleet.start("target_service", "--model", pair.target, *flags, environ=environ) for _ in range(2)
        ]
        self.draft = fleet.start("draft_service", *draft, *flags, environ=environ)
        addresses = ",".join(each.ready().address for each in self.targets)
        flags = ("--log-level", "DEBUG", "--max-request-tokens", "600")
        self.gateway = Gateway(
            pair.target, addresses, (self.draft.ready().address,), *flags, environ=environ
        ).ready()  # fmt: skip
        self.processes = [*self.targets, self.draft, self.gateway]

    def told(self):
        """All that was logged and exported."""
        return "".join(process.log() for process in self.processes) + repr(self.receiver.spans)


@pytest.fixture(scope="module")
def house(fleet, tiny_pair):
    with otlp_receiver() as receiver:
        house = House(fleet, tiny_pair, receiver)
        yield house
        house.gateway.kill()
        house.gateway.close()


def assert_silent(told, *more):
    for canary in (WORD, *SHOWN_IDS, *more):
        found = told.find(canary)
        assert found < 0, told[max(found - 300, 0) : found + 100]


async def test_what_is_served_is_told_to_nobody_else(house):
    """Nor what comes out: the greedy answer's text is a canary, too."""
    said = []
    async with httpx.AsyncClient(base_url=house.gateway.url, timeout=60) as http:
        for path, body in SERVED:
            answer = await http.post(path, json=body)
            assert answer.status_code == 200, answer.text
        answer = (await http.post("/v1/completions", json={**TOKENS, "temperature": 0, "max_tokens": 40})).json()
        said.append(answer["choices"][0]["text"][:16])
    async with grpc.aio.insecure_channel(house.gateway.address) as channel:
        stub = gateway_pb2_grpc.GatewayServiceStub(channel)
        async for _ in stub.Generate(gateway_pb2.GenerateRequest(text=WORD, max_tokens=4)):
            pass
    house.receiver.wait_for(lambda spans: sum(span.name.startswith("text_completion") for span in spans) >= 5)
    assert len(said[0].strip()) > 8
    assert_silent(house.told(), said[0])


async def test_an_error_quotes_nothing(house):
    async with httpx.AsyncClient(base_url=house.gateway.url, timeout=60) as http:
        for path, body in REFUSED:
            answer = await http.post(path, content=json.dumps(body))
            assert answer.status_code == 400, (answer.status_code, body)
            assert_silent(answer.text)
        for raw in (f'{{"prompt": "{WORD}"', f'["{WORD}"]', f'{{"prompt": NaN, "{WORD}": ', WORD):
            answer = await http.post("/v1/completions", content=raw)
            assert answer.status_code == 400
            assert_silent(answer.text)
    async with grpc.aio.insecure_channel(house.gateway.address) as channel:
        stub = gateway_pb2_grpc.GatewayServiceStub(channel)
        with pytest.raises(grpc.aio.AioRpcError) as refusal:
            await stub.Generate(gateway_pb2.GenerateRequest(text=WORD * 400, stop=[WORD * 200])).read()
        assert_silent(str(refusal.value))
    assert_silent(house.told())


async def test_a_service_that_is_asked_nonsense_quotes_nothing(house):
    """A wrong hash, an id that nobody has, a salt, straight to draft and target."""
    rejecting = {"prompt": [*IDS, 2**31], "num_prompt_tokens": 3, "cache_salt": WORD}
    opened = {"prompt": IDS, "num_prompt_tokens": len(IDS), "cache_salt": WORD}
    for client, kind, open_type, ask in (
        (TargetClient(house.targets[0].address), target_pb2.TargetRequest, TargetOpen, {"verify": Verify(hash=1)}),
        (DraftClient(house.draft.address), draft_pb2.DraftRequest, DraftOpen, {"propose": Propose(hash=1, k=2)}),
    ):
        for fields in (rejecting, opened):
            key = {"noise_key": bytes(16)} if kind is draft_pb2.DraftRequest else {}
            first = open_type(**fields, **key)
            first.sampling.verification, first.sampling.top_p, first.sampling.repetition_penalty = 1, 1.0, 1.0
            assert_silent(await _last_word(client, first, kind(**ask)))
        await client.close()
    assert_silent(house.told())


async def _last_word(client, first, message):
    """What ends the stream."""
    replies = asyncio.Queue()
    stream = client.open(first, replies.put_nowait)
    stream.post(message)
    words, reply = "", None
    async with asyncio.timeout(10):
        while not isinstance(reply, Exception):
            reply = await replies.get()
            words += str(reply)
    await stream.closed()
    return words


async def test_streams_that_break_and_clients_that_leave_quote_nothing(house):
    """A client that goes, half a request, a target killed under a stream: last, for it hurts the house."""
    host, port = house.gateway.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as half:
        half.sendall(f"POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 500\r\n\r\n{WORD}".encode())
    with socket.create_connection((host, int(port))) as garbled:
        garbled.sendall(f"{WORD} {WORD}\r\n\r\n".encode())
        assert_silent(garbled.recv(1000).decode())
    long = {**TOKENS, "max_tokens": 450, "stream": True}
    async with httpx.AsyncClient(base_url=house.gateway.url, timeout=60) as http:
        for strike in (None, lambda: [each.popen.send_signal(signal.SIGKILL) for each in house.targets]):
            with contextlib.suppress(httpx.HTTPError):
                async with http.stream("POST", "/v1/completions", json=long) as answer:
                    async for line in answer.aiter_lines():
                        if strike is None:
                            break
                        if line.startswith('data: {"error"'):
                            assert_silent(line)
                        strike()
    assert_silent(house.told())
