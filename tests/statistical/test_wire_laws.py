"""Text that went through real draft and target processes follows the target's own law.

The laws are computed by transformers' forward and processors written for the test alone. Each of the 16 cells gives
6 p-values; the family of 96 raises a false alarm with probability below 1e-4 (Bonferroni: 1e-4 / 96 each). The
controls are in tests/statistical/test_wire_controls.py and test_wire_bad_drafts.py.
"""

import asyncio
from itertools import combinations, product

import numpy as np
import pytest

from forerun.types import Verification
from tests.support import pit, reference
from tests.support.wire import SAMPLED, SEEDED, clients, drafted
from tests.support.wire_cells import DRAFTS, cells

CELLS = cells()
ALARM = 1e-4 / (len(CELLS) * pit.NUM_TESTS)
NUM_STREAMS, NUM_TOKENS, NUM_TOKENS_FULL = 16, 140, 480


@pytest.fixture(scope="session")
def wire_drafts(fleet, tiny_pair, tiny_draft, tiny_ngram):
    """The address of each kind of draft."""
    two = fleet.draft(tiny_pair.draft, tiny_pair.target, "--support", 2)
    full = fleet.draft(tiny_pair.draft, tiny_pair.target, "--support", 64)
    return dict(zip(DRAFTS, (two.address, tiny_draft.address, full.address, tiny_ngram.address), strict=True))


async def streams(target_address, draft_address, params, k, first_seed, num_tokens=NUM_TOKENS):
    """16 streams at once: prompts and runs."""

    async def one(target, draft, i):
        prompt = (1, 3 + i, 4 + (first_seed + i) % 50)
        return prompt, await drafted(target, draft, prompt, num_tokens, params, seed=first_seed + i, k=k)

    async with clients(target_address, draft_address) as (target, draft):
        return await asyncio.gather(*(one(target, draft, i) for i in range(NUM_STREAMS)))


def test_every_pair_of_levels_meets_in_a_cell():
    rows = [
        (p.temperature, p.top_k, p.top_p, p.min_p, p.presence_penalty, p.logit_bias, p.verification, k, draft)
        for _, p, k, draft in CELLS
    ]
    for a, b in combinations(list(zip(*rows, strict=True)), 2):
        assert set(zip(a, b, strict=True)) == set(product(set(a), set(b)))


@pytest.mark.parametrize("num_tokens", [NUM_TOKENS, pytest.param(NUM_TOKENS_FULL, marks=pytest.mark.full)])
@pytest.mark.parametrize("number", range(len(CELLS)), ids=[name for name, *_ in CELLS])
async def test_the_law_through_the_wire_is_the_targets(tiny_target, tiny_pair, wire_drafts, number, num_tokens):
    """Cases 4, 6, 17 and 20: no token outside the target's own nucleus, none that is forbidden, and the right law."""
    _, params, k, draft = CELLS[number]
    runs = await streams(tiny_target.address, wire_drafts[draft], params, k, 1000 * (number + 1), num_tokens)
    checked = []
    for prompt, run in runs:
        stream = reference.checkable(tiny_pair, prompt, run.ids, params)
        assert (stream[0][np.arange(num_tokens), run.ids] > 0).all(), "a token that the law forbids"
        checked.append(stream)
    assert all(verdict.refused == "" for _, run in runs for _, verdict in run.rounds)
    assert sum(run.num_accepted for _, run in runs) > NUM_STREAMS * num_tokens // 25, "the draft was of no use"
    assert min(pit.p_values(checked, seed=number)) > ALARM


@pytest.mark.full
@pytest.mark.parametrize("k", [3, 5, 6, 7])
@pytest.mark.parametrize("params", [SAMPLED, SEEDED], ids=["rejection", "match"])
async def test_the_law_is_the_targets_for_the_k_between_too(tiny_target, tiny_pair, wire_drafts, params, k):
    """Case 4, at T = 1; as above, a false alarm in 1e-4 of runs of all eight."""
    runs = await streams(tiny_target.address, wire_drafts["support 16"], params, k, 100_000 * k)
    assert max(len(proposal.tokens) for _, run in runs for proposal, _ in run.rounds) == k
    assert sum(run.num_accepted for _, run in runs) > NUM_STREAMS * NUM_TOKENS // 25
    checked = [reference.checkable(tiny_pair, prompt, run.ids, params) for prompt, run in runs]
    assert min(pit.p_values(checked, seed=k)) > 1e-4 / (8 * pit.NUM_TESTS)


async def test_acceptance_is_that_of_independent_noise(tiny_target, tiny_pair, wire_drafts):
    """Case 30: tokens are accepted at the rate sum min(p, q), |z| < 4.9: a false alarm in 1e-6 of runs."""
    _, params, k, _ = next(cell for cell in CELLS if cell[1].verification is Verification.REJECTION and cell[2] == 4)
    runs = await streams(tiny_target.address, wire_drafts["support 16"], params, k, 77_000)
    excess = variance = 0.0
    for prompt, run in runs:
        for accepted, chance in _decisions(tiny_pair.target, prompt, run, params):
            excess += accepted - chance
            variance += chance * (1 - chance)
    assert variance > 300
    assert abs(excess) < 4.9 * variance**0.5


def _decisions(folder, prompt, run, params):
    """Of every drafted token that was looked at: whether it was accepted, and with which chance."""
    num_emitted = 0
    laws = reference.laws(folder, prompt, run.ids, params)
    for proposal, verdict in run.rounds:
        cuts = np.cumsum([0, *proposal.support_lens])
        for i in range(min(verdict.num_accepted + 1, len(proposal.tokens))):
            if num_emitted + i >= len(run.ids):
                return
            q = np.zeros(laws.shape[1])
            q[list(proposal.support_ids[cuts[i] : cuts[i + 1]])] = proposal.weights[cuts[i] : cuts[i + 1]]
            yield i < verdict.num_accepted, np.minimum(laws[num_emitted + i], q / q.sum()).sum()
        num_emitted += verdict.num_accepted + 1
