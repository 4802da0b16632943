"""Drafts that are wrong in one way each, through the real target: the counts of a first token show all of them.

False alarm: 1e-6 a p-value. A control's own law is computed, so the probability of missing it is, too: below 1e-6.
"""

import asyncio

import numpy as np
import pytest

from forerun.sampling.draw import truncate
from forerun.sampling.noise import TargetNoise
from tests.support import bad_drafts, pit, reference
from tests.support.wire import SAMPLED, clients, speculated

ALARM = 1e-6
MISS = 1e-6
PROMPT = (1, 24, 50)
NUM_RUNS, CONCURRENCY, SUPPORT = 800, 16, 4
HONEST = (bad_drafts.honest, bad_drafts.sees_unknown_ids)
WRONG = (
    bad_drafts.reports_more_than_it_draws_from, bad_drafts.draws_with_the_acceptance_lane,
    bad_drafts.cuts_unlikely_tokens, bad_drafts.drops_unknown_ids,
)  # fmt: skip


@pytest.fixture(scope="module")
def p(tiny_pair):
    """The target's law `[V]` of the token after PROMPT."""
    return reference.law(reference.logits(tiny_pair.target, [PROMPT])[0, -1], PROMPT, len(PROMPT), SAMPLED)


@pytest.fixture(scope="module")
def q(tiny_pair):
    """The draft's, truncated."""
    law = reference.law(reference.logits(tiny_pair.draft, [PROMPT])[0, -1], PROMPT, len(PROMPT), SAMPLED)
    return truncate(law, SUPPORT)


async def counts(address, q, choose):
    """How often each id `[V]` came first, and how often it was the drafted one."""
    gate = asyncio.Semaphore(CONCURRENCY)

    async def one(target, seed):
        async with gate:
            drafter = bad_drafts.FirstToken(q, choose, TargetNoise(seed, 0))
            return await speculated(target, drafter, PROMPT, 1, SAMPLED, seed=seed, k=1)

    async with clients(address) as (target, _):
        runs = await asyncio.gather(*(one(target, 3000 + i) for i in range(NUM_RUNS)))
    assert all(verdict.refused == "" for run in runs for _, verdict in run.rounds)
    return np.bincount([run.ids[0] for run in runs], minlength=64), sum(run.num_accepted for run in runs)


@pytest.mark.parametrize("choose", HONEST, ids=lambda choose: choose.__name__)
async def test_an_honest_draft_leaves_the_law_as_it_is(tiny_target, p, q, choose):
    """An id that the target lacks is rejected, which costs nothing but a round."""
    found, num_accepted = await counts(tiny_target.address, q, choose)
    assert pit.count_p_value(found, p * NUM_RUNS) > ALARM
    law, accepted = bad_drafts.emitted_law(p, q, choose)
    assert np.abs(law - p).sum() < 1e-3
    assert binomial_z(num_accepted, accepted) < 4.9


@pytest.mark.parametrize("choose", WRONG, ids=lambda choose: choose.__name__)
async def test_control_a_draft_that_is_wrong_is_seen(tiny_target, p, q, choose):
    """And for the reason that is meant: what comes out follows the wrong law that was computed."""
    law, _ = bad_drafts.emitted_law(p, q, choose)
    assert pit.miss_probability(law * NUM_RUNS, p * NUM_RUNS, ALARM) < MISS
    found, _ = await counts(tiny_target.address, q, choose)
    assert pit.count_p_value(found, p * NUM_RUNS) < ALARM
    assert pit.count_p_value(found, law * NUM_RUNS) > ALARM


async def test_control_one_lane_for_draft_and_acceptance_is_seen_in_the_acceptance_alone(tiny_target, p, q):
    """Case 30, as tests/statistical/test_wire_laws.py looks at it: 8 standard errors, missed with probability 2e-4."""
    independent = np.minimum(p[q.ids], 1 / SUPPORT).sum()
    _, accepted = bad_drafts.emitted_law(p, q, bad_drafts.draws_with_the_acceptance_lane)
    assert binomial_z(NUM_RUNS * accepted, independent) > 8
    _, num_accepted = await counts(tiny_target.address, q, bad_drafts.draws_with_the_acceptance_lane)
    assert binomial_z(num_accepted, independent) > 4.9


def binomial_z(count, probability):
    """By how many standard errors `count` of NUM_RUNS misses its probability; 4.9 is a false alarm in 1e-6 of runs."""
    return abs(count - NUM_RUNS * probability) / (NUM_RUNS * probability * (1 - probability)) ** 0.5
