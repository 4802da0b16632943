"""The context limit of target and draft."""

import pytest

from tests.support import reference
from tests.support.wire import GREEDY, SEEDED, DraftLine, TargetLine, alone, clients, drafted, speculated

LIMIT = 512
NUM_LEFT = 11
PROMPT = [3 + (7 * i) % 59 for i in range(LIMIT - NUM_LEFT)]


@pytest.mark.parametrize("k", [1, 2, 3, 4, 5, 8, 16])
async def test_text_reaches_the_context_limit_exactly_with_every_k(tiny_target, tiny_draft, tiny_pair, k):
    """Case 15: prompt + generated = the limit; drafts that would run past it are cut, not crashed on."""
    expected = reference.greedy(tiny_pair.target, PROMPT, NUM_LEFT, GREEDY)
    async with clients(tiny_target.address, tiny_draft.address) as (target, draft):
        assert (await alone(target, PROMPT, NUM_LEFT, GREEDY)).ids == expected
        assert (await drafted(target, draft, PROMPT, NUM_LEFT, GREEDY, k=k)).ids == expected
        assert (await speculated(target, Eager(draft), PROMPT, NUM_LEFT, GREEDY, k=k)).ids == expected


async def test_a_grant_past_the_context_limit_ends_there(tiny_target):
    """Case 15: the last token is the one after a full context; its stream then rests, and its neighbours go on."""
    async with clients(tiny_target.address) as (target, _):
        line = TargetLine(target, PROMPT, GREEDY)
        line.verify(PROMPT, grant=1_000_000)
        got = [(await line.verdict()).token for _ in range(NUM_LEFT + 1)]
        assert (await alone(target, [1, 2, 3], 20, GREEDY)).ids
        assert not line.has_reply()
        await line.finish()
    assert len(got) == NUM_LEFT + 1


async def test_a_prompt_over_the_limit_is_refused_and_one_at_the_limit_is_served(tiny_target):
    async with clients(tiny_target.address) as (target, _):
        full = [*PROMPT, *range(3, 3 + NUM_LEFT)]
        assert len((await alone(target, full, 1, GREEDY)).ids) == 1
        line = TargetLine(target, [*full, 5], GREEDY)
        error = await line.reply()
    assert "513 tokens are over the limit of 512" in str(error)


@pytest.mark.parametrize("params", [GREEDY, SEEDED], ids=["greedy", "seeded"])
async def test_past_the_drafts_own_context_the_text_goes_on_with_k_zero(
    fleet, tiny_target, tiny_short_draft_pair, params
):
    """Case 16: the draft's context is 64 tokens, the text 150 long."""
    short = fleet.draft(tiny_short_draft_pair.draft, tiny_short_draft_pair.target)
    async with clients(tiny_target.address, short.address) as (target, draft):
        assert (await draft.info()).max_model_len == 64
        plain = await alone(target, PROMPT[:20], 130, params, seed=4)
        run = await drafted(target, draft, PROMPT[:20], 130, params, seed=4, k=5)
        line = DraftLine(draft, PROMPT, params, seed=4)
        late = await line.propose(PROMPT, 5)
        await line.finish()
    assert run.ids == plain.ids
    assert late.tokens == []
    for proposal, _ in run.rounds:
        assert len(proposal.tokens) <= max(0, 65 - proposal.base_len)
        assert len(proposal.tokens) > 0 or proposal.base_len > 64
    assert run.num_accepted > 10


class Eager:
    """A draft that ignores how many tokens are left: it proposes past the limit."""

    def __init__(self, client):
        self._client = client

    async def propose(self, transcript, k, base_len):
        line = DraftLine(self._client, transcript, GREEDY)
        proposal = await line.propose(transcript, k)
        await line.finish()
        proposal.tokens.extend([5] * 20)
        return proposal
