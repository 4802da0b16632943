"""A model in which one token's embedding has overflowed: who meets that token ends alone, with a clear fault."""

import asyncio
import json

import grpc
import httpx
import pytest
import torch

from forerun.types import SamplingParams, Verification
from forerun.v1 import common_pb2
from tests.support import tiny
from tests.support.wire import GREEDY, DraftLine, TargetLine, alone, clients

OVERFLOWED = 50
PROMPT = [1, 5, 9, 30, 12]
ELSEWHERE = SamplingParams(logit_bias=((OVERFLOWED, -100.0),), verification=Verification.MATCH)
NEXT = SamplingParams(temperature=0.0, logit_bias=((OVERFLOWED, 100.0),), verification=Verification.MATCH)


@pytest.fixture(scope="module")
def overflowing_pair(tmp_path_factory):
    """A pair in both of which token OVERFLOWED gives numbers that are none."""
    pair = tiny.build_pair(tmp_path_factory.mktemp("overflowing"))
    for folder in (pair.target, pair.draft):
        model = tiny.LlamaForCausalLM.from_pretrained(folder)
        with torch.no_grad():
            model.model.embed_tokens.weight[OVERFLOWED] = float("inf")
        model.save_pretrained(folder)
    return pair


@pytest.fixture(scope="module")
def target_service(fleet, overflowing_pair):
    return fleet.target(overflowing_pair.target)


@pytest.fixture(scope="module")
def draft_service(fleet, overflowing_pair):
    return fleet.draft(overflowing_pair.draft, overflowing_pair.target)


async def test_a_prompt_or_a_token_that_overflows_ends_its_sequence_and_no_other(target_service):
    """The neighbour shares every step with them, and the next one the blocks that they leave."""
    async with clients(target_service.address) as (target, _):
        expected = (await alone(target, PROMPT, 80, ELSEWHERE, seed=3)).ids
        neighbour = TargetLine(target, PROMPT, ELSEWHERE, seed=3)
        neighbour.verify(PROMPT, grant=79)
        got = [(await neighbour.verdict()).token]
        for prompt, params, num_signed in (([*PROMPT, OVERFLOWED, 7], GREEDY, 0), (PROMPT, NEXT, 1)):
            line = TargetLine(target, prompt, params)
            line.verify(prompt, grant=20)
            assert [(await line.verdict()).token for _ in range(num_signed)] == [OVERFLOWED] * num_signed
            fault = await line.expect(common_pb2.Fault)
            assert fault.code == grpc.StatusCode.ABORTED.value[0]
            assert fault.message == "the model's logits are not finite"
            await line.stream.closed()
        got += [(await neighbour.verdict()).token for _ in range(79)]
        await neighbour.finish()
        assert got == expected
        assert (await alone(target, PROMPT, 80, ELSEWHERE, seed=3)).ids == expected


@pytest.mark.parametrize("place", [0, 2])
async def test_under_match_no_drafted_token_ends_a_sequence(target_service, place):
    """A draft may propose the token that the target itself would never take; what it hit is computed again."""
    async with clients(target_service.address) as (target, _):
        expected = (await alone(target, PROMPT, 40, ELSEWHERE, seed=3)).ids
        line = TargetLine(target, PROMPT, ELSEWHERE, seed=3)
        text = list(PROMPT)
        while len(text) < len(PROMPT) + 40:
            truth = expected[len(text) - len(PROMPT) :]
            drafted = [*truth[:place], OVERFLOWED, 7]
            line.verify(text, common_pb2.Proposal(base_len=len(text), tokens=drafted))
            verdict = await line.verdict()
            assert verdict.num_accepted <= place
            text += [*truth[: verdict.num_accepted], verdict.token]
        await line.finish()
        assert text[len(PROMPT) :][:40] == expected


async def test_a_draft_that_overflows_ends_its_own_sequence_and_no_other(draft_service):
    async with clients(draft_service.address, draft_service.address) as (_, draft):
        neighbour = DraftLine(draft, PROMPT, ELSEWHERE)
        expected = list((await neighbour.propose(PROMPT, 30)).tokens)
        line = DraftLine(draft, PROMPT, NEXT)
        line.ask(PROMPT, 5)
        fault = await line.expect(common_pb2.Fault)
        assert "not finite" in fault.message
        assert list((await neighbour.propose(PROMPT, 30)).tokens) == expected
        await neighbour.finish()


async def test_a_client_is_told_and_its_neighbour_served(fleet, overflowing_pair, target_service, draft_service):
    """Through the gateway, streamed or not: an error in OpenAI's shape after what is right."""
    gateway = fleet.gateway(overflowing_pair.target, target_service.address, (draft_service.address,))
    shared = {"prompt": PROMPT, "max_tokens": 60, "ignore_eos": True, "return_token_ids": True, "seed": 3}
    fine = {**shared, "logit_bias": {OVERFLOWED: -100}}
    async with httpx.AsyncClient(base_url=gateway.url, timeout=30) as http:

        async def ids():
            answer = await http.post("/v1/completions", json=fine)
            return answer.json()["choices"][0]["token_ids"]

        expected = await ids()
        neighbour = asyncio.create_task(ids())
        answer = await http.post("/v1/completions", json={**shared, "logit_bias": {OVERFLOWED: 100}})
        stream = await http.post("/v1/completions", json={**shared, "logit_bias": {OVERFLOWED: 100}, "stream": True})
        assert await neighbour == expected
    error = {"message": "the model's logits are not finite", "type": "server_error", "param": None}
    assert answer.status_code == 500
    assert answer.json()["error"] == {**error, "code": "sequence_fault"}
    first, last = (json.loads(event.removeprefix("data: ")) for event in stream.text.strip().split("\n\n"))
    assert first["choices"][0]["token_ids"] == [OVERFLOWED]
    assert last["error"] == answer.json()["error"]
