"""First-order checks through the wire: counts at a position, diversity, and the law that a draft says it drew from.

Each p-value raises a false alarm with probability 1e-6.
"""

import asyncio
from itertools import product

import numpy as np
import pytest
from scipy import stats

from forerun.types import SamplingParams, Verification
from tests.support import pit, reference
from tests.support.wire import SAMPLED, SEEDED, DraftLine, alone, clients, drafted

ALARM = 1e-6
PROMPT = (1, 9, 31, 4)
NUM_RUNS, NUM_TOKENS = 500, 3
VOCAB_SIZE = 64
CONCURRENCY = 16


async def many(target_address, draft_address, params, k, first_seed, num_runs=NUM_RUNS, num_tokens=NUM_TOKENS):
    """Short runs of different seeds, `[num_runs, num_tokens]`; k 0 is plain decoding."""
    gate = asyncio.Semaphore(CONCURRENCY)

    async def one(target, draft, seed):
        async with gate:
            if k == 0:
                return (await alone(target, PROMPT, num_tokens, params, seed)).ids
            return (await drafted(target, draft, PROMPT, num_tokens, params, seed, k=k)).ids

    async with clients(target_address, draft_address) as (target, draft):
        return np.array(await asyncio.gather(*(one(target, draft, first_seed + i) for i in range(num_runs))))


@pytest.fixture(scope="module")
def marginals(tiny_pair):
    """The exact law `[NUM_TOKENS, V]` of the token at each position after PROMPT, by enumeration."""
    probability, found = np.ones(1), []
    for t in range(NUM_TOKENS):
        prefixes = [[*PROMPT, *tail] for tail in product(range(VOCAB_SIZE), repeat=t)]
        rows = reference.logits(tiny_pair.target, prefixes)[:, -1]
        p = np.exp(rows - rows.max(axis=1, keepdims=True))
        joint = probability[:, None] * p / p.sum(axis=1, keepdims=True)
        found.append(joint.sum(axis=0))
        probability = joint.ravel()
    return np.stack(found)


@pytest.mark.parametrize("k", [0, 1, 2, 8])
@pytest.mark.parametrize("params", [SAMPLED, SEEDED], ids=["rejection", "match"])
async def test_counts_at_a_position_are_those_of_the_exact_law(tiny_target, tiny_draft, marginals, params, k):
    """Case 4: T = 1, speculated or plain, token by token."""
    runs = await many(tiny_target.address, tiny_draft.address, params, k, first_seed=10_000 * (k + 1))
    for t in range(NUM_TOKENS):
        counts = np.bincount(runs[:, t], minlength=VOCAB_SIZE)
        assert pit.count_p_value(counts, marginals[t] * NUM_RUNS) > ALARM, f"position {t}"


async def test_two_hundred_runs_are_as_diverse_as_plain_decoding(tiny_target, tiny_draft):
    """Case 8: the number of different texts and of different first tokens, with and without speculation."""
    plain = await many(tiny_target.address, None, SAMPLED, 0, 1, 200, 6)
    speculated = await many(tiny_target.address, tiny_draft.address, SAMPLED, 4, 1, 200, 6)
    texts = [len({tuple(run) for run in runs.tolist()}) for runs in (plain, speculated)]
    firsts = [len(set(runs[:, 0].tolist())) for runs in (plain, speculated)]
    assert min(texts) > 100
    assert abs(texts[0] - texts[1]) < 5 * 200**0.5 / 2
    assert abs(firsts[0] - firsts[1]) <= 12


@pytest.mark.parametrize("temperature", [0.5, 0.7, 1.0, 1.4])
async def test_a_draft_draws_from_the_law_that_it_reports_at_every_temperature(tiny_draft, tiny_pair, temperature):
    """Case 5: the reported law is that of the draft's own logits, and the tokens are drawn from it."""
    params = SamplingParams(temperature=temperature, verification=Verification.REJECTION)
    u, rng = [], np.random.default_rng(7)
    async with clients(tiny_draft.address, tiny_draft.address) as (_, draft):
        for seed in range(12):
            line = DraftLine(draft, (1, 3 + seed), params, seed)
            proposal = await line.propose([1, 3 + seed], 32)
            await line.finish()
            reported = _reported(proposal)
            own = reference.laws(tiny_pair.draft, (1, 3 + seed), list(proposal.tokens), params)
            kept = np.where(own >= np.sort(own, axis=1)[:, -16:-15], own, 0)
            assert np.abs(reported - kept / kept.sum(axis=1, keepdims=True)).max() < 2e-4
            u.append(pit.uniforms(reported, list(proposal.tokens), rng, likeliest_first=True))
    assert stats.kstest(np.concatenate(u), "uniform").pvalue > ALARM


def _reported(proposal):
    cuts = np.cumsum([0, *proposal.support_lens])
    laws = np.zeros((len(proposal.tokens), VOCAB_SIZE))
    for i, row in enumerate(laws):
        row[list(proposal.support_ids[cuts[i] : cuts[i + 1]])] = proposal.weights[cuts[i] : cuts[i + 1]]
    return laws / laws.sum(axis=1, keepdims=True)
