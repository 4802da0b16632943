"""Three processes behind locks: mutual TLS between them, TLS and keys before them, and the text is the same."""

import asyncio
import signal
import socket
import ssl

import grpc
import httpx
import pytest

from forerun.errors import ServiceUnavailable
from forerun.rpc.certificates import Certificates
from forerun.rpc.channels import PeerTls
from forerun.rpc.clients import DraftClient, TargetClient
from forerun.v1 import gateway_pb2, gateway_pb2_grpc
from tests.support import certificates
from tests.support.certificates import Authority
from tests.support.ports import free_ports
from tests.support.processes import TINY, Gateway, Process

ONE, TWO = "sk-one-aaaaaaaaaaaa", "sk-two-bbbbbbbbbbbb"
PROMPT = [1, 5, 9, 30, 12, 7, 7, 31, 3] * 5
BODY = {"prompt": PROMPT, "max_tokens": 24, "ignore_eos": True, "temperature": 0, "return_token_ids": True}


def bearer(key):
    return {"authorization": f"Bearer {key}"}


class House:
    """A draft, a target and a gateway, each with a certificate, and what a client needs to know of them."""

    def __init__(self, folder, pair):
        self.ca, self.stranger = Authority(folder), Authority(folder, "stranger")
        self.public = self.ca.files("localhost", stem="public")
        self.keys = folder / "keys"
        self.keys.write_text(f"{ONE}\n{TWO}\n")
        only = ("--tls-client-names", "gateway")
        self.ports = free_ports(2)
        shown = [certificates.flags(self.ca.files(name)) for name in ("target", "draft", "gateway")]
        draft = ("--model", pair.draft, "--target-model", pair.target)
        self.processes = [
            Process("target_service", "--port", self.ports[0], "--model", pair.target, *TINY, *shown[0], *only),
            Process("draft_service", "--port", self.ports[1], *draft, *TINY, *shown[1], *only),
        ]
        names = ("--target-tls-name", "target", "--draft-tls-name", "draft", "--api-keys-file", self.keys)
        public = certificates.flags(self.public, "--public-tls-")
        addresses = [f"127.0.0.1:{port}" for port in self.ports]
        self.gateway = Gateway(pair.target, addresses[0], addresses[1:], *shown[2], *names, *public)
        self.processes.append(self.gateway)
        self.url = self.gateway.url.replace("http://127.0.0.1", "https://localhost")
        for process in self.processes:
            process.until_logged('"serving"')

    def http(self):
        """A client that trusts the CA."""
        context = ssl.create_default_context(cafile=self.ca.path)
        return httpx.AsyncClient(base_url=self.url, verify=context, timeout=60)

    def close(self):
        for process in self.processes:
            process.kill()
            process.close()


@pytest.fixture(scope="module")
def locked(tmp_path_factory, tiny_pair):
    house = House(tmp_path_factory.mktemp("locks"), tiny_pair)
    yield house
    house.close()


async def complete(http, key=ONE, **fields):
    answer = await http.post("/v1/completions", json={**BODY, **fields}, headers=bearer(key))
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_the_text_is_that_of_an_open_house_and_the_draft_is_used(
    locked, fleet, tiny_pair, tiny_target, tiny_draft
):
    opened = fleet.gateway(tiny_pair.target, tiny_target.address, (tiny_draft.address,))
    async with locked.http() as http, httpx.AsyncClient(base_url=opened.url) as plain:
        fixed = {"speculative": {"num_draft_tokens": 3}}
        mine, theirs = await complete(http, **fixed), await complete(plain, **fixed)
        assert mine["choices"][0]["token_ids"] == theirs["choices"][0]["token_ids"]
        async with asyncio.timeout(30):
            while not (await complete(http, **fixed))["speculative"]["num_accepted_tokens"]:
                pass


async def test_cached_tokens_tell_a_key_nothing_of_another(locked):
    """Within a key, and within its salt, the second of two equal prompts finds the first."""
    async with locked.http() as http:
        for salt in ("", "chat"):
            prompt = [len(salt) + 2, *PROMPT]
            seen = []
            for key in (ONE, ONE, TWO, TWO):
                answer = await complete(http, key, prompt=prompt, **({"cache_salt": salt} if salt else {}))
                seen.append(answer["usage"]["prompt_tokens_details"]["cached_tokens"])
            assert seen[0] == seen[2] == 0 and seen[1] == seen[3] > 0


async def test_grpc_speaks_the_same_tls_and_asks_for_the_same_keys(locked):
    credentials = grpc.ssl_channel_credentials(locked.ca.pem)
    options = (("grpc.ssl_target_name_override", "localhost"),)
    async with grpc.aio.secure_channel(locked.gateway.address, credentials, options) as channel:
        stub = gateway_pb2_grpc.GatewayServiceStub(channel)
        request = gateway_pb2.GenerateRequest(tokens=gateway_pb2.TokenIds(ids=PROMPT), max_tokens=4, temperature=0)
        shown = (("authorization", f"Bearer {ONE}"),)
        assert [piece async for piece in stub.Generate(request, metadata=shown)]
        with pytest.raises(grpc.aio.AioRpcError) as refusal:
            await stub.Generate(request).read()
        assert refusal.value.code() is grpc.StatusCode.UNAUTHENTICATED


@pytest.mark.parametrize("client", [TargetClient, DraftClient])
async def test_only_the_gateways_certificate_may_ask_draft_and_target(locked, client):
    kind = "target" if client is TargetClient else "draft"
    port = locked.ports[0 if kind == "target" else 1]
    answers = {}
    for who, files in {
        "nobody": None,
        "draft": locked.ca.files("draft", stem="imitation"),
        "stranger": locked.stranger.files("gateway", trusts=locked.ca, stem="stranger-gateway"),
        "gateway": locked.ca.files("gateway", stem="twin"),
    }.items():
        peer = client(f"127.0.0.1:{port}", tls=PeerTls(Certificates(files), kind) if files else None)
        try:
            answers[who] = (await peer.info(2.0)).service
        except ServiceUnavailable:
            answers[who] = "refused"
        await peer.close()
    assert answers == {"nobody": "refused", "draft": "refused", "stranger": "refused", "gateway": kind}


async def test_renewed_keys_and_certificates_are_used_without_a_restart(locked):
    new = "sk-new-cccccccccccc"
    async with locked.http() as http:
        locked.keys.write_text(f"{ONE}\n{TWO}\n{new}\n")
        async with asyncio.timeout(5):
            while (await http.get("/v1/models", headers=bearer(new))).status_code == 401:
                await asyncio.sleep(0.05)
    for name in ("renewed.example", "localhost"):
        certificates.replace(locked.public, locked.ca.files(name, stem=f"renewed-{name}"))
        async with asyncio.timeout(5):
            while name not in await asyncio.to_thread(_names_shown, locked):
                await asyncio.sleep(0.05)


def _names_shown(locked):
    context = ssl.create_default_context(cafile=locked.ca.path)
    context.check_hostname = False
    port = int(locked.url.rpartition(":")[2])
    with (
        socket.create_connection(("127.0.0.1", port)) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as tls,
    ):
        return {name for kind, name in tls.getpeercert()["subjectAltName"] if kind == "DNS"}


async def test_a_gateway_that_is_told_to_stop_answers_503_while_a_stream_ends(locked):
    """Last but one: the house has no gateway afterwards."""
    codes, events = {}, []
    async with locked.http() as http:
        body = {**BODY, "max_tokens": 400, "stream": True}
        async with http.stream("POST", "/v1/completions", json=body, headers=bearer(ONE)) as answer:
            async for line in answer.aiter_lines():
                if not events:
                    locked.gateway.popen.send_signal(signal.SIGTERM)
                    async with asyncio.timeout(5):
                        while (code := (await http.get("/ready")).status_code) == 200:
                            pass
                    codes["ready"] = code
                    refused = await http.post("/v1/completions", json=BODY, headers=bearer(ONE))
                    codes["new"], codes["retry"] = refused.status_code, refused.headers["retry-after"]
                events += [line] if line else []
    assert codes == {"ready": 503, "new": 503, "retry": "1"}
    assert events[-1] == "data: [DONE]"
    assert await asyncio.to_thread(locked.gateway.wait, 20) == 0


def test_no_log_holds_a_key(locked):
    logs = "".join(process.log() for process in locked.processes)
    assert "Traceback" not in logs
    assert not any(key in logs for key in (ONE, TWO, "sk-new"))
