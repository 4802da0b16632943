"""The gateway's own drafters through the real target: a certain token leaves the law as it is.

False alarm: 1e-6 a p-value. The control is a drafter whose choice looks at the target's noise; it is missed with
probability below 1e-6, by its own computed law.
"""

import asyncio

import numpy as np
import pytest

from forerun.types import SamplingParams, Verification
from gateway.own_drafters import Offer
from gateway.own_drafting import certain
from tests.support import pit, reference
from tests.support.wire import SAMPLED, alone, clients, speculated

ALARM = 1e-6
PROMPT = (1, 24, 50)
NUM_RUNS, CONCURRENCY = 800, 16
BLOCK = SamplingParams(verification=Verification.BLOCK)


class Certain:
    """Proposes one and the same run, as a lookup does for one and the same text."""

    def __init__(self, tokens):
        self._tokens = tokens

    async def propose(self, transcript, k, base_len=None):
        return certain(Offer("suffix", self._tokens, 2.0), len(transcript), needs_laws=True)


@pytest.fixture(scope="module")
def p(tiny_pair):
    """The target's law `[V]` of the token after PROMPT."""
    return reference.law(reference.logits(tiny_pair.target, [PROMPT])[0, -1], PROMPT, len(PROMPT), SAMPLED)


async def counts(address, tokens, params, is_used=None):
    """How often each id `[V]` came first, and how often the drafted one was accepted."""
    gate = asyncio.Semaphore(CONCURRENCY)

    async def one(target, seed):
        async with gate:
            if is_used is not None and not is_used((await alone(target, PROMPT, 1, params, seed=seed)).ids[0]):
                return await alone(target, PROMPT, 1, params, seed=seed)
            return await speculated(target, Certain(tokens), PROMPT, 1, params, seed=seed, k=len(tokens))

    async with clients(address) as (target, _):
        runs = await asyncio.gather(*(one(target, 7000 + i) for i in range(NUM_RUNS)))
    assert all(verdict.refused == "" for run in runs for _, verdict in run.rounds)
    return np.bincount([run.ids[0] for run in runs], minlength=64), sum(run.num_accepted > 0 for run in runs)


@pytest.mark.parametrize("params", [SAMPLED, BLOCK], ids=["rejection", "block"])
async def test_a_certain_token_leaves_the_law_and_is_accepted_as_often_as_it_is_likely(tiny_target, p, params):
    x = int(p.argmax())
    found, num_accepted = await counts(tiny_target.address, (x, 5, x), params)
    assert pit.count_p_value(found, p * NUM_RUNS) > ALARM
    assert abs(num_accepted - NUM_RUNS * p[x]) < 4.9 * (NUM_RUNS * p[x] * (1 - p[x])) ** 0.5


async def test_control_a_choice_that_looks_at_the_targets_noise_is_seen(tiny_target, p):
    """It proposes x only where the target would not draw it: x comes with p(2 - p)."""
    x = int(p.argmax())
    wrong = np.where(np.arange(len(p)) == x, p * (2 - p), p * (1 - p[x] * (2 - p[x])) / (1 - p[x]))
    assert pit.miss_probability(wrong * NUM_RUNS, p * NUM_RUNS, ALARM) < ALARM
    found, _ = await counts(tiny_target.address, (x,), SAMPLED, is_used=lambda drawn: drawn != x)
    assert pit.count_p_value(found, p * NUM_RUNS) < ALARM
