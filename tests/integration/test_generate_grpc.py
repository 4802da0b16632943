"""gRPC Generate against the real services: the same semantics as REST, and for a seed the same ids."""

import math

import grpc
import httpx
import pytest
from grpc_status import rpc_status

from forerun.v1 import gateway_pb2
from tests.support.generate import gateway_stub, generate

PROMPT = [42, 29, 47, 17, 16, 7, 29]
NUM_TOKENS = 40
CASES = {
    "greedy": {"temperature": 0.0},
    "seeded": {"seed": 7},
    "truncated": {"seed": 8, "temperature": 0.7, "top_p": 0.9, "top_k": 12, "min_p": 0.02},
    "penalised": {"seed": 9, "presence_penalty": 0.5, "frequency_penalty": 0.4, "repetition_penalty": 1.1},
    "stopped": {"temperature": 0.0, "stop_token_ids": list(range(3, 12)), "min_tokens": 6},
    "negative seed": {"seed": -5},
}


@pytest.fixture(scope="session")
def gateway(fleet, tiny_pair, tiny_target, tiny_draft):
    """A gateway over the tiny pair."""
    return fleet.gateway(tiny_pair.target, tiny_target.address, (tiny_draft.address,))


@pytest.fixture
async def stub(gateway):
    async with gateway_stub(gateway.address) as stub:
        yield stub


async def rest(gateway, path="/v1/completions", **body):
    """The REST answer's body."""
    shared = {"max_tokens": NUM_TOKENS, "ignore_eos": True, "return_token_ids": True}
    async with httpx.AsyncClient(base_url=gateway.url, timeout=60) as http:
        answer = await http.post(path, json={**shared, **body})
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.mark.parametrize("k", [0, 4, None])
@pytest.mark.parametrize("name", CASES)
async def test_ids_text_and_ending_are_those_of_rest(gateway, stub, name, k):
    """Cases 7 and 14."""
    speculative = {"enabled": k != 0, **({"num_draft_tokens": k} if k else {})}
    body = await rest(gateway, prompt=PROMPT, speculative=speculative, **CASES[name])
    answer = await generate(stub, PROMPT, NUM_TOKENS, k=k, **CASES[name])
    (choice,) = body["choices"]
    assert answer.ids == choice["token_ids"]
    assert answer.choices[0].text == choice["text"]
    assert answer.choices[0].finish_reason == choice["finish_reason"]
    assert answer.usage.prompt_tokens == body["usage"]["prompt_tokens"] == len(PROMPT)
    assert answer.usage.completion_tokens == body["usage"]["completion_tokens"] == len(answer.ids)


async def test_a_chat_is_the_chat_of_rest(gateway, stub):
    messages = [{"role": "system", "content": "be brief"}, {"role": "user", "content": "the stone"}]
    body = await rest(gateway, "/v1/chat/completions", messages=messages, seed=3)
    chat = gateway_pb2.Chat(messages=[gateway_pb2.ChatMessage(**message) for message in messages])
    fields = {"chat": chat, "seed": 3, "max_tokens": NUM_TOKENS, "ignore_eos": True}
    pieces = [piece async for piece in stub.Generate(gateway_pb2.GenerateRequest(**fields), timeout=60)]
    assert [token for piece in pieces for token in piece.token_ids] == body["choices"][0]["token_ids"]
    assert "".join(piece.text for piece in pieces) == body["choices"][0]["message"]["content"]
    assert pieces[-1].usage.prompt_tokens == body["usage"]["prompt_tokens"]


async def test_text_is_split_as_rest_splits_it_and_stop_strings_cut_alike(gateway, stub):
    """Case 13."""
    plain = await rest(gateway, prompt="the other", temperature=0.0)
    stop = plain["choices"][0]["text"][12:17]
    body = await rest(gateway, prompt="the other", temperature=0.0, stop=[stop])
    request = gateway_pb2.GenerateRequest(
        text="the other", temperature=0.0, stop=[stop], max_tokens=NUM_TOKENS, ignore_eos=True
    )
    pieces = [piece async for piece in stub.Generate(request, timeout=60)]
    assert "".join(piece.text for piece in pieces) == body["choices"][0]["text"]
    assert [piece.finish_reason for piece in pieces if piece.finish_reason] == ["stop"]


async def test_choices_of_a_seed_are_those_of_rest(gateway, stub):
    """Case 21."""
    body = await rest(gateway, prompt=PROMPT, seed=3, n=4)
    answer = await generate(stub, PROMPT, NUM_TOKENS, k=2, seed=3, n=4)
    assert [answer.choices[i].ids for i in range(4)] == [choice["token_ids"] for choice in body["choices"]]
    assert answer.usage.completion_tokens == 4 * NUM_TOKENS


async def test_logprobs_and_echo_are_those_of_rest(gateway, stub):
    """Case 22."""
    body = await rest(gateway, prompt=PROMPT, seed=3, logprobs=2, echo=True)
    answer = await generate(stub, PROMPT, NUM_TOKENS, k=3, seed=3, logprobs=2, echo=True)
    expected, entries = body["choices"][0]["logprobs"], answer.choices[0].logprobs
    assert answer.ids == [*PROMPT, *body["choices"][0]["token_ids"]]
    assert answer.choices[0].text == body["choices"][0]["text"]
    assert math.isnan(entries[0].logprob)
    assert [entry.logprob for entry in entries[1:]] == pytest.approx(expected["token_logprobs"][1:], abs=1e-4)
    assert [entry.token for entry in entries] == expected["tokens"]
    assert all(len(entry.top_logprobs) == 2 for entry in entries[1:])


async def test_a_second_request_finds_its_prompt_cached_unless_its_salt_differs(stub):
    prompt = [3 + (11 * i) % 59 for i in range(130)]
    num_cached = []
    for salt in ("grpc", "grpc", "another"):
        num_cached.append((await generate(stub, prompt, 4, cache_salt=salt, seed=1)).usage.cached_tokens)
    assert num_cached[0] == num_cached[2] == 0
    assert num_cached[1] >= 112


async def test_a_key_in_the_metadata_is_a_salt_as_in_rest(gateway, stub):
    """What one key asked, no other learns from cached_tokens."""
    prompt = [3 + (13 * i) % 59 for i in range(130)]

    async def cached(key):
        request = gateway_pb2.GenerateRequest(tokens=gateway_pb2.TokenIds(ids=prompt), max_tokens=2, ignore_eos=True)
        call = stub.Generate(request, metadata=(("authorization", f"Bearer {key}"),), timeout=60)
        return [piece async for piece in call][-1].usage.cached_tokens

    assert [await cached(key) for key in ("a", "b")] == [0, 0]
    assert await cached("a") >= 112
    async with httpx.AsyncClient(base_url=gateway.url, headers={"authorization": "Bearer a"}) as http:
        usage = (await http.post("/v1/completions", json={"prompt": prompt, "max_tokens": 2})).json()["usage"]
    assert usage["prompt_tokens_details"]["cached_tokens"] >= 112


@pytest.mark.parametrize(
    ("fields", "param"),
    [({"temperature": 3.0}, "temperature"), ({"n": 1000}, "n"), ({"logit_bias": {64: 1.0}}, "logit_bias"),
     ({"min_tokens": 99}, "min_tokens")],
)  # fmt: skip
async def test_what_rest_refuses_with_a_400_is_an_invalid_argument_that_names_the_same_field(
    gateway, stub, fields, param
):
    """Case 19."""
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await generate(stub, PROMPT, NUM_TOKENS, **fields)
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert param.encode() in rpc_status.from_call(refused.value).details[0].value
    async with httpx.AsyncClient(base_url=gateway.url) as http:
        body = {"prompt": PROMPT, "max_tokens": NUM_TOKENS, **fields}
        body["logit_bias"] = {str(token): bias for token, bias in fields.get("logit_bias", {}).items()}
        answer = await http.post("/v1/completions", json=body)
    assert answer.json()["error"]["message"] == refused.value.details()
    assert answer.json()["error"]["param"] == param
