"""Text from a draft that runs ahead of verdicts follows the target's law, through real draft and target processes.

Every proposal for an outcome that was foreseen is one that was drafted before the verdict was known. Each cell gives 6
p-values; the family of 18 raises a false alarm with probability below 1e-5 (Bonferroni).
"""

import asyncio

import pytest

from forerun.rpc.messages import Proposal
from forerun.types import SamplingParams, Verification
from tests.support import pit, reference
from tests.support.ahead import AheadLine
from tests.support.wire import SAMPLED, SEEDED, clients, speculated

NUM_STREAMS, NUM_TOKENS, NUM_BRANCHES = 16, 120, 6
BLOCK = SamplingParams(temperature=0.8, top_p=0.95, verification=Verification.BLOCK)
CELLS = {"rejection K=4": (SAMPLED, 4), "coupled K=3": (SEEDED, 3), "block T=0.8 top_p K=3": (BLOCK, 3)}
ALARM = 1e-5 / (len(CELLS) * pit.NUM_TESTS)


async def streams(target_address, draft_address, params, k, first_seed, line_type=AheadLine):
    """16 streams at once: (prompt, run, line) of each."""

    async def one(target, draft, i):
        prompt, seed = (1, 3 + i, 4 + (first_seed + i) % 50), first_seed + i
        line = line_type(draft, prompt, params, seed, ahead_k=k, num_branches=NUM_BRANCHES)
        run = await speculated(target, line, prompt, NUM_TOKENS, params, seed, k=k)
        await line.finish()
        return prompt, run, line

    async with clients(target_address, draft_address) as (target, draft):
        return await asyncio.gather(*(one(target, draft, i) for i in range(NUM_STREAMS)))


def p_value(pair, found, params):
    return min(pit.p_values([reference.checkable(pair, prompt, run.ids, params) for prompt, run, _ in found], seed=1))


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.full] * (i > 0)) for i, name in enumerate(CELLS)]
)
async def test_what_was_drafted_ahead_leaves_the_law_as_it_is(tiny_target, ahead_draft, tiny_pair, name):
    params, k = CELLS[name]
    found = await streams(tiny_target.address, ahead_draft.address, params, k, 1000 * (1 + list(CELLS).index(name)))
    assert all(verdict.refused == "" for _, run, _ in found for _, verdict in run.rounds)
    num_hits, num_asked = (sum(getattr(line, count) for *_, line in found) for count in ("num_hits", "num_asked"))
    assert num_hits > (num_hits + num_asked) / 3, "hardly any outcome was foreseen, so nothing was tested"
    assert p_value(tiny_pair, found, params) > ALARM


class PickyLine(AheadLine):
    """Throws away what was drafted ahead where its first token is not the likeliest, and then proposes nothing."""

    async def propose(self, transcript, k, base_len=None):
        num_asked = self.num_asked
        proposal = await super().propose(transcript, k, base_len)
        weights = list(proposal.weights[: proposal.support_lens[0]])
        likeliest = proposal.support_ids[weights.index(max(weights))]
        is_kept = self.num_asked > num_asked or proposal.tokens[0] == likeliest
        return proposal if is_kept else Proposal(base_len=proposal.base_len)


async def test_control_a_proposal_ahead_that_is_dropped_for_what_it_holds_is_seen(tiny_target, ahead_draft, tiny_pair):
    """Which outcomes are drafted for may depend on laws, whether a proposal is used may not depend on its tokens."""
    found = await streams(tiny_target.address, ahead_draft.address, SAMPLED, 4, 9000, PickyLine)
    assert all(verdict.refused == "" for _, run, _ in found for _, verdict in run.rounds)
    print(p_value(tiny_pair, found, SAMPLED))
    assert p_value(tiny_pair, found, SAMPLED) < ALARM
