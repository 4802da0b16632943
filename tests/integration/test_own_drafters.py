"""The gateway's own drafters over the real services: seen in the counts, never in the text."""

import pytest

from tests.support.generate import gateway_stub, generate

PROMPT = [42, 29, 47, 17, 16, 7, 29] * 8
NUM_TOKENS = 160
CASES = {"greedy": {"temperature": 0.0}, "seeded": {"seed": 7, "temperature": 0.3}}


@pytest.fixture(scope="module")
def gateways(fleet, tiny_pair, tiny_target, tiny_draft):
    """With a draft service and without one."""
    drafts = {"with a service": (tiny_draft.address,), "without": ()}
    return {name: fleet.gateway(tiny_pair.target, tiny_target.address, each) for name, each in drafts.items()}


@pytest.mark.parametrize("drafts", ["with a service", "without"])
@pytest.mark.parametrize("name", CASES)
async def test_greedy_and_seeded_text_is_the_targets_own(gateways, name, drafts):
    async with gateway_stub(gateways[drafts].address) as stub:
        plain = await generate(stub, PROMPT, NUM_TOKENS, k=0, **CASES[name])
        for _ in range(2):
            answer = await generate(stub, PROMPT, NUM_TOKENS, k=None, **CASES[name])
            assert answer.ids == plain.ids


async def test_a_text_that_goes_round_is_drafted_without_any_service(gateways):
    """The tiny target repeats itself when greedy."""
    async with gateway_stub(gateways["without"].address) as stub:
        answer = await generate(stub, PROMPT, NUM_TOKENS, k=None, temperature=0.0)
    repeats = sum(answer.ids[i : i + 3] in [answer.ids[j : j + 3] for j in range(i)] for i in range(3, NUM_TOKENS - 3))
    assert repeats > NUM_TOKENS / 4, "this text is no test"
    assert answer.speculative.num_draft_tokens > 0
    assert answer.speculative.num_accepted_tokens > 0
