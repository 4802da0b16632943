"""The block rule through real draft and target processes: the text has the target's law, the verdicts are the rule's.

Each cell gives 6 p-values of its text; the family of 18 raises a false alarm with probability below 1e-5 (Bonferroni).
That these tests see a biased text is shown in tests/statistical/test_wire_controls.py and test_wire_bad_drafts.py.
"""

import asyncio
import functools

import numpy as np
import pytest

from forerun.rpc.convert import proposal_from_pb
from forerun.types import SamplingParams, Verification
from target_service.rules.block import BlockRule
from target_service.rules.rejection import RejectionRule
from tests.support import pit, reference
from tests.support.generate import gateway_stub, generate
from tests.support.wire import clients, drafted

NUM_STREAMS, NUM_TOKENS = 16, 140
PENALTIES = {"presence_penalty": 0.5, "frequency_penalty": 0.2, "repetition_penalty": 1.2}
CELLS = {
    "T=0.7 top_p penalties K=8 full": ({"temperature": 0.7, "top_p": 0.9, **PENALTIES}, 8, ("--support", 64)),
    "plain K=4 support 16": ({}, 4, ()),
    "top_k min_p bias K=3 ngram": ({"top_k": 8, "min_p": 0.05, "logit_bias": ((33, -100.0), (15, 1.5))}, 3, None),
}
ALARM = 1e-5 / (len(CELLS) * pit.NUM_TESTS)


async def streams(target_address, draft_address, params, k, first_seed):
    """16 streams at once: (seed, prompt, run) of each."""

    async def one(target, draft, seed):
        prompt = (1, 3 + seed % 50, 4 + seed % 47)
        return seed, prompt, await drafted(target, draft, prompt, NUM_TOKENS, params, seed=seed, k=k)

    async with clients(target_address, draft_address) as (target, draft):
        return await asyncio.gather(*(one(target, draft, first_seed + i) for i in range(NUM_STREAMS)))


def judged_otherwise(rules, folder, params, runs):
    """For each rule, in which share of the rounds it says otherwise, by transformers' laws and the sequence's noise."""
    differ = []
    for seed, prompt, run in runs:
        judges = [rule(seed, 0, 64) for rule in rules]
        transcript = list(prompt)
        for sent, verdict in run.rounds:
            laws = _laws(folder, transcript, sent.tokens, len(prompt), params)
            outcomes = [judge.verify(laws, proposal_from_pb(sent)) for judge in judges]
            given = (verdict.num_accepted, verdict.token)
            differ.append([(outcome.num_accepted, outcome.token) != given for outcome in outcomes])
            transcript += [*sent.tokens[: verdict.num_accepted], verdict.token]
    return np.mean(differ, axis=0)


def _laws(folder, transcript, drafted_ids, num_prompt_tokens, params):
    base_len, ids = len(transcript), [*transcript, *drafted_ids]
    rows = reference.logits(folder, [ids])[0, base_len - 1 :]
    return functools.cache(lambda i: reference.law(rows[i], ids[: base_len + i], num_prompt_tokens, params))


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.full] * (i > 0)) for i, name in enumerate(CELLS)]
)
async def test_the_law_through_the_wire_is_the_targets(fleet, tiny_target, tiny_pair, tiny_ngram, name):
    """Cases 4, 6, 17 and 20. One verdict in a thousand may differ, where a uniform falls between two roundings."""
    more, k, flags = CELLS[name]
    params = SamplingParams(verification=Verification.BLOCK, **more)
    draft = tiny_ngram if flags is None else fleet.draft(tiny_pair.draft, tiny_pair.target, *flags)
    runs = await streams(tiny_target.address, draft.address, params, k, 1000 + 100 * list(CELLS).index(name))
    assert all(verdict.refused == "" for _, _, run in runs for _, verdict in run.rounds)
    checked = [reference.checkable(tiny_pair, prompt, run.ids, params) for _, prompt, run in runs]
    for (_, _, run), (laws, *_) in zip(runs, checked, strict=True):
        assert (laws[np.arange(NUM_TOKENS), run.ids] > 0).all(), "a token that the law forbids"
    assert min(pit.p_values(checked, seed=k)) > ALARM
    by_block, by_rejection = judged_otherwise((BlockRule, RejectionRule), tiny_pair.target, params, runs)
    assert by_block <= 1e-3
    assert by_rejection > 0.01, "the control: another rule is seen"


async def test_a_request_through_the_gateway_may_ask_for_it(fleet, tiny_pair, tiny_target, tiny_draft):
    """The same noise gives another text than under rejection, and its tokens are accepted."""
    gateway = fleet.gateway(tiny_pair.target, tiny_target.address, (tiny_draft.address,))
    async with gateway_stub(gateway.address) as stub:
        by_block, by_rejection = [
            await generate(stub, [1, 5, 9], 100, k=4, rule=rule, seed=11) for rule in ("block", "rejection")
        ]
    assert by_block.ids != by_rejection.ids
    assert by_block.speculative.num_accepted_tokens > 0.2 * by_block.speculative.num_draft_tokens
