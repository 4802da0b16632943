"""First-order checks through the wire: counts at a position, diversity, and the law that a draft says it drew from.

Each statement raises a false alarm with probability 1e-6, or less; every one has a control that it must not pass.
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


def text_law(folder, temperature=1.0):
    """The exact law `[V, ..., V]` of the NUM_TOKENS tokens after PROMPT, by enumeration."""
    probability = np.ones(1)
    for t in range(NUM_TOKENS):
        prefixes = [[*PROMPT, *tail] for tail in product(range(VOCAB_SIZE), repeat=t)]
        rows = reference.logits(folder, prefixes)[:, -1] / temperature
        p = np.exp(rows - rows.max(axis=1, keepdims=True))
        probability = (probability[:, None] * p / p.sum(axis=1, keepdims=True)).ravel()
    return probability.reshape((VOCAB_SIZE,) * NUM_TOKENS)


def marginals_of(law):
    """The law `[NUM_TOKENS, V]` of the token at each position."""
    return np.stack([np.moveaxis(law, t, -1).sum(axis=tuple(range(NUM_TOKENS - 1))) for t in range(NUM_TOKENS)])


@pytest.fixture(scope="module")
def texts(tiny_pair):
    return text_law(tiny_pair.target)


@pytest.fixture(scope="module")
def marginals(texts):
    return marginals_of(texts)


@pytest.mark.parametrize("k", [0, 1, 2, 8])
@pytest.mark.parametrize("params", [SAMPLED, SEEDED], ids=["rejection", "match"])
async def test_counts_at_a_position_are_those_of_the_exact_law(tiny_target, tiny_draft, marginals, params, k):
    """Case 4: T = 1, speculated or plain, token by token."""
    runs = await many(tiny_target.address, tiny_draft.address, params, k, first_seed=10_000 * (k + 1))
    for t in range(NUM_TOKENS):
        counts = np.bincount(runs[:, t], minlength=VOCAB_SIZE)
        assert pit.count_p_value(counts, marginals[t] * NUM_RUNS) > ALARM, f"position {t}"


async def test_control_a_temperature_that_was_ignored_is_seen_at_every_position(
    tiny_target, tiny_draft, tiny_pair, marginals
):
    """Missed with a probability below 1e-20 a position, which is computed."""
    params = SamplingParams(temperature=1.5, verification=Verification.REJECTION)
    hotter = marginals_of(text_law(tiny_pair.target, params.temperature))
    runs = await many(tiny_target.address, tiny_draft.address, params, 2, first_seed=60_000)
    for t in range(NUM_TOKENS):
        assert pit.miss_probability(hotter[t] * NUM_RUNS, marginals[t] * NUM_RUNS, ALARM) < 1e-20
        counts = np.bincount(runs[:, t], minlength=VOCAB_SIZE)
        assert pit.count_p_value(counts, marginals[t] * NUM_RUNS) < ALARM, f"position {t}"


NUM_DIVERSE = 200


def diversity(texts):
    """How many different texts NUM_DIVERSE runs have on average, and a distance passed with probability ALARM at most.

    Which texts occur is negatively associated, so Bernstein's inequality holds as for independent indicators.
    """
    seen = 1 - (1 - texts.ravel()) ** NUM_DIVERSE
    log, variance = np.log(2 / ALARM), (seen * (1 - seen)).sum()
    return seen.sum(), log / 3 + (log**2 / 9 + 2 * variance * log) ** 0.5


@pytest.mark.parametrize("k", [0, 4])
async def test_two_hundred_runs_are_as_diverse_as_the_law_says(tiny_target, tiny_draft, texts, k):
    """Case 8; the control is twenty seeds used ten times each: 10 texts and 2 their deviation, where 18 would pass."""
    mean, distance = diversity(texts)
    runs = (await many(tiny_target.address, tiny_draft.address, SAMPLED, k, 1, NUM_DIVERSE)).tolist()
    assert abs(num_different(runs) - mean) < distance
    assert abs(num_different(runs[:20] * 10) - mean) > distance


def num_different(runs):
    return len({tuple(run) for run in runs})


NUM_PROPOSALS, NUM_DRAFTED = 12, 32


async def proposals(draft_address, temperature):
    """Per proposal: its prompt, its tokens, and the law `[NUM_DRAFTED, V]` reported for each."""
    params = SamplingParams(temperature=temperature, verification=Verification.REJECTION)
    found = []
    async with clients(draft_address, draft_address) as (_, draft):
        for seed in range(NUM_PROPOSALS):
            prompt = [1, 3 + seed]
            line = DraftLine(draft, prompt, params, seed)
            proposal = await line.propose(prompt, NUM_DRAFTED)
            await line.finish()
            found.append((prompt, list(proposal.tokens), _reported(proposal)))
    return found


def own_laws(folder, prompt, tokens, temperature):
    """The law of a draft's own logits, cut to its 16 likeliest ids before anything is drawn."""
    laws = reference.laws(folder, prompt, tokens, SamplingParams(temperature=temperature))
    kept = np.where(laws >= np.sort(laws, axis=1)[:, -16:-15], laws, 0)
    return kept / kept.sum(axis=1, keepdims=True)


def drawn_from(laws, tokens):
    """p-value of tokens `[N][T]` under laws `[N][T, V]`."""
    rng = np.random.default_rng(7)
    u = [pit.uniforms(*pair, rng, likeliest_first=True) for pair in zip(laws, tokens, strict=True)]
    return stats.kstest(np.concatenate(u), "uniform").pvalue


@pytest.mark.parametrize("temperature", [0.5, 0.7, 1.0, 1.4])
async def test_a_draft_draws_from_the_law_that_it_reports_at_every_temperature(tiny_draft, tiny_pair, temperature):
    """Case 5: the reported law is that of the draft's own logits, and the tokens are drawn from it."""
    found = await proposals(tiny_draft.address, temperature)
    for prompt, tokens, reported in found:
        assert np.abs(reported - own_laws(tiny_pair.draft, prompt, tokens, temperature)).max() < 2e-4
    assert drawn_from([laws for *_, laws in found], [tokens for _, tokens, _ in found]) > ALARM


@pytest.mark.parametrize("wrong", [0.4, 2.0])
async def test_control_a_draft_that_reports_the_law_of_another_temperature_is_seen(tiny_draft, tiny_pair, wrong):
    """Case 5: by what it reports, and by what it draws: p-values of 6e-23 and 3e-31, missed with probability 1e-6."""
    found = await proposals(tiny_draft.address, 1.0)
    laws = [own_laws(tiny_pair.draft, prompt, tokens, wrong) for prompt, tokens, _ in found]
    assert min(np.abs(law - reported).max() for law, (*_, reported) in zip(laws, found, strict=True)) > 0.1
    assert drawn_from(laws, [tokens for _, tokens, _ in found]) < ALARM


def _reported(proposal):
    cuts = np.cumsum([0, *proposal.support_lens])
    laws = np.zeros((len(proposal.tokens), VOCAB_SIZE))
    for i, row in enumerate(laws):
        row[list(proposal.support_ids[cuts[i] : cuts[i + 1]])] = proposal.weights[cuts[i] : cuts[i + 1]]
    return laws / laws.sum(axis=1, keepdims=True)
