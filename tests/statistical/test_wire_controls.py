"""Negative controls through the wire: what biases the output, the test of tests/statistical/test_wire_laws.py sees."""

import asyncio
from dataclasses import replace

import numpy as np
import pytest

from tests.support import pit, reference
from tests.support.hostile_draft import hostile_draft
from tests.support.wire import SAMPLED, SEEDED, alone, clients, drafted

ALARM = 1e-4 / 96  # as there
NUM_STREAMS, NUM_TOKENS, K = 16, 140, 4


async def runs(target_address, draft_address, params):
    async def one(target, draft, i):
        prompt = (1, 3 + i, 40 - i)
        if draft is None:
            return prompt, (await alone(target, prompt, NUM_TOKENS, params, seed=500 + i)).ids
        run = await drafted(target, draft, prompt, NUM_TOKENS, params, seed=500 + i, k=K)
        assert all(verdict.refused == "" for _, verdict in run.rounds)
        return prompt, run.ids

    async with clients(target_address, draft_address) as (target, draft):
        return await asyncio.gather(*(one(target, draft, i) for i in range(NUM_STREAMS)))


def p_value(pair, found, params):
    return min(pit.p_values([reference.checkable(pair, prompt, ids, params) for prompt, ids in found], seed=1))


async def test_a_liar_biases_rejection_and_the_test_sees_it(tiny_target, tiny_pair):
    """It draws greedily and reports a soft law, in a way that passes the target's redraw (cases 5 and 9).

    12 standard errors, give or take one, and 5 would pass: missed with other seeds with probability below 1e-9.
    """
    async with hostile_draft(tiny_pair.draft) as address:
        found = await runs(tiny_target.address, address, SAMPLED)
    assert p_value(tiny_pair, found, SAMPLED) < ALARM


async def test_the_same_liar_changes_nothing_under_match(tiny_target, tiny_pair):
    """Untrusted drafts run under match: the text is that of plain decoding, and follows the law."""
    async with hostile_draft(tiny_pair.draft) as address:
        found = await runs(tiny_target.address, address, SEEDED)
    assert found == await runs(tiny_target.address, None, SEEDED)
    assert p_value(tiny_pair, found, SEEDED) > ALARM


async def test_plain_decoding_follows_the_law(tiny_target, tiny_pair):
    found = await runs(tiny_target.address, None, SAMPLED)
    assert p_value(tiny_pair, found, SAMPLED) > ALARM


@pytest.mark.parametrize("wrong", [{"temperature": 0.85}, {"top_p": 0.9}, {"frequency_penalty": 0.3}], ids=str)
async def test_a_parameter_that_was_ignored_would_be_seen(tiny_target, tiny_pair, wrong):
    """Cases 6, 8 and 17: text of one law tested against another.

    Missed with other seeds with probability 5e-7 (temperature), 1e-26 (top_p), 7e-21 (penalty): the score of 200
    simulated repetitions is normal, 10.6, 28.4, 16.7 standard errors from its law, and has to pass 5.
    """
    found = await runs(tiny_target.address, None, SAMPLED)
    assert p_value(tiny_pair, found, replace(SAMPLED, **wrong)) < ALARM


def test_tokens_that_copy_their_neighbours_noise_would_be_seen():
    """Right marginals, dependent tokens: only the third p-value can tell. Around 500 on 24 degrees: never missed."""
    rng = np.random.default_rng(3)
    laws = np.full((400, 8), 1 / 8)
    emitted = np.repeat(rng.integers(8, size=200), 2)
    by_id, by_rank, neighbours, *_ = pit.p_values([(laws, np.log(laws), emitted)], seed=2)
    assert min(by_id, by_rank) > ALARM > neighbours
