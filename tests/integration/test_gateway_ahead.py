"""The gateway's process with a real draft that runs ahead: the text is that of the target alone (cases 7, 9 and 31)."""

import asyncio

import httpx
import pytest

from tests.support.generate import gateway_stub, generate

PROMPT, NUM_TOKENS = [1, 5, 9, 30, 12, 7, 7, 31, 3], 80
FIELDS = {"greedy": {"temperature": 0.0}, "seeded": {"seed": 6, "top_p": 0.9}}


@pytest.fixture(scope="module")
def gateway(fleet, tiny_pair, tiny_target, tiny_draft):
    return fleet.gateway(tiny_pair.target, tiny_target.address, (tiny_draft.address,), "--ahead", "on")


@pytest.fixture(scope="module")
def small_draft(fleet, tiny_pair):
    """A draft whose cache holds 10 blocks of 16 tokens: one sequence of 89, and hardly a branch."""
    return fleet.draft(tiny_pair.draft, tiny_pair.target, "--cache-tokens", 160)


def count(gateway, name):
    lines = httpx.get(f"{gateway.url}/metrics").text.splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith(f"{name} "))


def has_nonsense(gateway):
    return 'reason="nonsense"' in httpx.get(f"{gateway.url}/metrics").text


@pytest.mark.parametrize("name", FIELDS)
async def test_the_text_is_that_of_the_target_alone_for_every_k(gateway, name):
    async with gateway_stub(gateway.address) as stub:
        plain = await generate(stub, PROMPT, NUM_TOKENS, k=0, **FIELDS[name])
        before = count(gateway, "forerun_ahead_hits_total")
        for k in (1, 3, 8):
            answer = await generate(stub, PROMPT, NUM_TOKENS, k=k, **FIELDS[name])
            assert answer.ids == plain.ids, f"K = {k}"
        assert count(gateway, "forerun_ahead_proposals_total") > 0
        assert count(gateway, "forerun_ahead_hits_total") > before


async def test_eight_streams_at_once_say_what_each_says_alone(gateway):
    async with gateway_stub(gateway.address) as stub:
        prompts = [[1, 3 + i, 40 - i] for i in range(8)]
        plain = [(await generate(stub, p, 50, k=0, seed=i)).ids for i, p in enumerate(prompts)]
        answers = await asyncio.gather(*(generate(stub, p, 50, k=4, seed=i) for i, p in enumerate(prompts)))
    assert [answer.ids for answer in answers] == plain


async def test_a_draft_without_blocks_to_spare_has_no_branches_and_goes_on(fleet, tiny_pair, tiny_target, small_draft):
    """Never an error, never at the cost of a sequence (case 28)."""
    gateway = fleet.gateway(tiny_pair.target, tiny_target.address, (small_draft.address,), "--ahead", "on")
    async with gateway_stub(gateway.address) as stub:
        plain = await generate(stub, PROMPT, NUM_TOKENS, k=0, seed=2)
        answers = await asyncio.gather(*(generate(stub, PROMPT, NUM_TOKENS, k=4, seed=2) for _ in range(2)))
    assert all(answer.ids == plain.ids for answer in answers)
    assert sum(answer.speculative.num_accepted_tokens for answer in answers) > 0
    assert not has_nonsense(gateway)
