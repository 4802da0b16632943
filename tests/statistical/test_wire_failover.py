"""Targets that die around a verdict: what comes out at another replica still has the target's law.

False alarm: 1e-6 a p-value. The control is a gateway that asks again under new noise where a verdict displeased it; it
is missed with probability below 1e-6, by its own computed law.
"""

import asyncio

import numpy as np
import pytest

from tests.support import pit, reference
from tests.support.wire import SAMPLED, DraftLine, TargetLine, clients

ALARM = 1e-6
PROMPT = (1, 24, 50)
NUM_RUNS, NUM_CONTROLS, CONCURRENCY, VOCAB_SIZE = 600, 1000, 16, 64
K, NUM_ATTEMPTS = 2, 4


@pytest.fixture(scope="module")
def laws(tiny_pair):
    """The law `[V]` of the first token after PROMPT, and that of the second."""
    first = reference.law(reference.logits(tiny_pair.target, [PROMPT])[0, -1], PROMPT, len(PROMPT), SAMPLED)
    prefixes = [[*PROMPT, token] for token in range(VOCAB_SIZE)]
    rows = reference.logits(tiny_pair.target, prefixes)[:, -1]
    after = [reference.law(row, ids, len(PROMPT), SAMPLED) for row, ids in zip(rows, prefixes, strict=True)]
    return first, first @ np.stack(after)


async def proposal_of(draft, transcript, seed, k):
    """By a stream of its own, as after a failure of the draft."""
    line = DraftLine(draft, transcript, SAMPLED, seed, num_prompt_tokens=len(PROMPT))
    try:
        return await line.propose(transcript, k)
    finally:
        await line.finish()


async def verdict_on(target, transcript, seed, proposal):
    """By a stream that opens with everything committed so far and ends after its verdict, heard or not."""
    line = TargetLine(target, transcript, SAMPLED, seed, num_prompt_tokens=len(PROMPT))
    line.verify(transcript, proposal)
    try:
        return await line.verdict()
    finally:
        await line.finish()


def committed(proposal, verdict):
    return [*(proposal.tokens[: verdict.num_accepted] if proposal is not None else ()), verdict.token]


async def text(target, draft, seed, again):
    """Two tokens, each target dying with its verdict unheard; `again` gives what its successor is asked to verify."""
    transcript = list(PROMPT)
    while len(transcript) < len(PROMPT) + 2:
        lost = await proposal_of(draft, transcript, seed, K)
        await verdict_on(target, transcript, seed, lost)
        proposal = await again(draft, transcript, seed, lost)
        transcript += committed(proposal, await verdict_on(target, transcript, seed, proposal))
    return transcript[len(PROMPT) :][:2]


async def the_same(draft, transcript, seed, lost):
    return lost


async def longer(draft, transcript, seed, lost):
    return await proposal_of(draft, transcript, seed, K + 2)


async def none(draft, transcript, seed, lost):
    return None


async def many(target_address, draft_address, one, first_seed, num_runs=NUM_RUNS):
    """`one(target, draft, seed)` for num_runs seeds, CONCURRENCY at a time."""
    gate = asyncio.Semaphore(CONCURRENCY)

    async def in_turn(target, draft, seed):
        async with gate:
            return await one(target, draft, seed)

    async with clients(target_address, draft_address) as (target, draft):
        return await asyncio.gather(*(in_turn(target, draft, first_seed + i) for i in range(num_runs)))


@pytest.mark.parametrize("again", [the_same, longer, none])
async def test_sampled_text_keeps_its_law_when_every_verdict_is_lost_once(tiny_target, tiny_draft, laws, again):
    def one(target, draft, seed):
        return text(target, draft, seed, again)

    runs = np.array(await many(tiny_target.address, tiny_draft.address, one, first_seed=4000))
    for place, law in enumerate(laws):
        counts = np.bincount(runs[:, place], minlength=VOCAB_SIZE)
        assert pit.count_p_value(counts, law * NUM_RUNS) > ALARM, f"token {place}"


async def test_control_a_gateway_that_asks_again_under_new_noise_after_a_rejection_is_seen(
    tiny_target, tiny_draft, laws
):
    async def choosy(target, draft, seed):
        for attempt in range(NUM_ATTEMPTS):
            proposal = await proposal_of(draft, list(PROMPT), seed + attempt * 10**6, 1)
            verdict = await verdict_on(target, list(PROMPT), seed + attempt * 10**6, proposal)
            if verdict.num_accepted:
                break
        q = np.zeros(VOCAB_SIZE)
        q[list(proposal.support_ids)] = proposal.weights
        return committed(proposal, verdict)[0], q / q.sum()

    runs = await many(tiny_target.address, tiny_draft.address, choosy, 4000, NUM_CONTROLS)
    p, q = laws[0], runs[0][1]
    accepted = np.minimum(p, q)
    again = 1 - accepted.sum()
    wrong = accepted * sum(again**i for i in range(NUM_ATTEMPTS - 1)) + again ** (NUM_ATTEMPTS - 1) * p
    assert pit.miss_probability(wrong * NUM_CONTROLS, p * NUM_CONTROLS, ALARM) < ALARM
    counts = np.bincount([token for token, _ in runs], minlength=VOCAB_SIZE)
    assert pit.count_p_value(counts, p * NUM_CONTROLS) < ALARM
