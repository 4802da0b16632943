"""A K that a request fixes above what `auto` may choose: real draft and target processes behind a gateway."""

import asyncio

import httpx
import pytest

from forerun.types import SamplingParams
from tests.support import pit, reference
from tests.support.generate import gateway_stub, generate

PROMPT = [1, 5, 9, 30, 12, 7, 7, 31, 3]
NUM_TOKENS = 120
KS = (9, 16, 32)


@pytest.fixture(scope="session")
def twin_gateway(fleet, tiny_pair, tiny_target):
    """The draft is the target's own model: what it proposes holds to the last token, however many there are."""
    draft = fleet.draft(tiny_pair.target, tiny_pair.target)
    return fleet.gateway(tiny_pair.target, tiny_target.address, (draft.address,))


@pytest.fixture(scope="session")
def pair_gateway(fleet, tiny_pair, tiny_target, tiny_draft):
    """The draft is wrong now and then."""
    return fleet.gateway(tiny_pair.target, tiny_target.address, (tiny_draft.address,))


@pytest.mark.parametrize("k", KS)
@pytest.mark.parametrize("fields", [{"temperature": 0.0}, {"seed": 7}], ids=["greedy", "seeded"])
async def test_whole_proposals_of_k_tokens_are_accepted_and_change_no_token(twin_gateway, fields, k):
    async with gateway_stub(twin_gateway.address) as stub:
        plain = await generate(stub, PROMPT, NUM_TOKENS, k=0, **fields)
        answer = await generate(stub, PROMPT, NUM_TOKENS, k=k, **fields)
    assert answer.ids == plain.ids
    stats = answer.speculative
    assert stats.num_accepted_tokens == stats.num_draft_tokens
    assert stats.num_draft_tokens > 0.6 * k * stats.num_drafts  # the last one is cut by max_tokens


@pytest.mark.parametrize("k", KS)
@pytest.mark.parametrize("fields", [{"temperature": 0.0}, {"seed": 7}], ids=["greedy", "seeded"])
async def test_proposals_that_hold_in_part_change_no_token(pair_gateway, fields, k):
    async with gateway_stub(pair_gateway.address) as stub:
        plain = await generate(stub, PROMPT, NUM_TOKENS, k=0, **fields)
        answer = await generate(stub, PROMPT, NUM_TOKENS, k=k, **fields)
    assert answer.ids == plain.ids
    assert 0 < answer.speculative.num_accepted_tokens < answer.speculative.num_draft_tokens


@pytest.mark.parametrize("k", [12, pytest.param(32, marks=pytest.mark.full)])
async def test_sampled_text_follows_the_targets_law(pair_gateway, tiny_pair, k):
    """Case 4; a false alarm in 1e-5 of runs (2 times 6 p-values). The controls are those of tests/statistical."""
    async with gateway_stub(pair_gateway.address) as stub:

        async def one(i):
            prompt = [1, 3 + i, 50 - i]
            answer = await generate(stub, prompt, NUM_TOKENS, k=k, rule="rejection", seed=1700 + i)
            return reference.checkable(tiny_pair, prompt, answer.ids, SamplingParams()), answer.speculative

        runs = await asyncio.gather(*(one(i) for i in range(16)))
    assert sum(stats.num_accepted_tokens for _, stats in runs) > 200
    assert min(pit.p_values([stream for stream, _ in runs], seed=6)) > 1e-5 / 12


async def test_one_more_than_the_limit_is_a_400_that_names_it(pair_gateway):
    async with httpx.AsyncClient(base_url=pair_gateway.url) as http:
        body = {"prompt": PROMPT, "speculative": {"num_draft_tokens": 33}}
        answer = await http.post("/v1/completions", json=body)
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert (error["param"], "32" in error["message"]) == ("speculative.num_draft_tokens", True)
