"""A real draft that ends its proposals where it is unsure: the text keeps the target's law.

The family of 12 p-values raises a false alarm with probability below 1e-5 (Bonferroni). The control, a draft that
withholds a token for its own q, is in tests/statistical/test_wire_bad_drafts.py.
"""

import asyncio

import pytest

from forerun.types import SamplingParams, Verification
from tests.support import pit, reference
from tests.support.wire import clients, drafted

NUM_STREAMS, NUM_TOKENS, K, MIN_SURVIVAL = 16, 140, 6, 0.2
CELLS = {
    "rejection": SamplingParams(verification=Verification.REJECTION),
    "block": SamplingParams(verification=Verification.BLOCK, temperature=0.7, top_p=0.9, frequency_penalty=0.2),
}
ALARM = 1e-5 / (len(CELLS) * pit.NUM_TESTS)


@pytest.mark.parametrize("name", CELLS)
async def test_the_law_through_the_wire_is_the_targets(fleet, tiny_pair, tiny_target, name):
    params, tiny_draft = CELLS[name], fleet.draft(tiny_pair.draft, tiny_pair.target)

    async def one(target, draft, seed):
        prompt = (1, 3 + seed % 50, 4 + seed % 47)
        run = await drafted(target, draft, prompt, NUM_TOKENS, params, seed=seed, k=K, min_survival=MIN_SURVIVAL)
        return prompt, run

    async with clients(tiny_target.address, tiny_draft.address) as (target, draft):
        runs = await asyncio.gather(*(one(target, draft, 3000 + i) for i in range(NUM_STREAMS)))
    lengths = [len(sent.tokens) for _, run in runs for sent, _ in run.rounds]
    usual = [k for k in range(1, K + 1) if lengths.count(k) > 0.05 * len(lengths)]
    assert len(usual) > 1 and min(usual) < K, "it ends early, and not always in the same place"
    checked = [reference.checkable(tiny_pair, prompt, run.ids, params) for prompt, run in runs]
    assert min(pit.p_values(checked, seed=K)) > ALARM
