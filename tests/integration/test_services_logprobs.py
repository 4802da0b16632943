"""Logprobs, penalties, bias and minimum lengths are those of plain decoding, token by token."""

import numpy as np
import pytest

from forerun.types import SamplingParams, Verification
from forerun.v1.target_pb2 import PromptLogprobs
from tests.support import reference
from tests.support.wire import GREEDY, SAMPLED, SEEDED, TargetLine, alone, clients, drafted

PROMPT = (1, 5, 9, 30, 12, 12, 12)
NUM_TOKENS = 60


def greedy(**changes):
    return SamplingParams(temperature=0.0, verification=Verification.MATCH, **changes)


PARAMS = {
    "frequency": greedy(frequency_penalty=0.7),
    "presence": greedy(presence_penalty=1.5),
    "repetition": greedy(repetition_penalty=1.3),
    "negative presence": greedy(presence_penalty=-0.5),
    "bias": greedy(logit_bias=((33, -100.0), (15, 3.0), (20, -4.0))),
    "bias 100": greedy(logit_bias=((33, 100.0),)),
    "min tokens": greedy(min_tokens=25, stop_token_ids=(15, 33, 20)),
    "everything": greedy(
        frequency_penalty=0.3,
        presence_penalty=0.2,
        repetition_penalty=1.1,
        logit_bias=((24, -100.0), (17, 2.0)),
        min_tokens=30,
        stop_token_ids=(15, 40),
    ),
}


@pytest.mark.parametrize("name", PARAMS)
async def test_a_parameter_changes_greedy_text_exactly_as_token_by_token(tiny_target, tiny_draft, tiny_pair, name):
    """Cases 17, 18 and 20: the baseline is transformers' forward and an argmax for each single token."""
    params = PARAMS[name]
    expected = reference.greedy(tiny_pair.target, PROMPT, NUM_TOKENS, params)
    unchanged = reference.greedy(tiny_pair.target, PROMPT, NUM_TOKENS, GREEDY)
    assert expected != unchanged, "the parameter changes nothing here, so nothing is tested"
    async with clients(tiny_target.address, tiny_draft.address) as (target, draft):
        assert (await alone(target, PROMPT, NUM_TOKENS, params)).ids == expected
        for k in (1, 3, 8):
            run = await drafted(target, draft, PROMPT, NUM_TOKENS, params, k=k)
            assert run.ids == expected, f"K = {k}"


@pytest.mark.parametrize("params", [GREEDY, SEEDED, SAMPLED], ids=["greedy", "seeded", "rejection"])
async def test_logprobs_of_speculation_are_those_of_plain_decoding(tiny_target, tiny_draft, tiny_pair, params):
    """Case 22: of every token, raw log-softmax of the target within 1e-3, and the likeliest five."""
    async with clients(tiny_target.address, tiny_draft.address) as (target, draft):
        plain = await alone(target, PROMPT, NUM_TOKENS, params, seed=8, num_logprobs=5)
        spec = await drafted(target, draft, PROMPT, NUM_TOKENS, params, seed=8, k=5, num_logprobs=5)
    for run in (plain, spec):
        assert len(run.logprobs) == NUM_TOKENS
        _check(run.logprobs, run.ids, _rows(tiny_pair, PROMPT, run.ids))
    assert spec.num_accepted > 10
    if params is not SAMPLED:
        assert spec.ids == plain.ids
        assert np.abs(_own(spec) - _own(plain)).max() < 1e-3


async def test_logprobs_are_raw_whatever_the_processors_do(tiny_target, tiny_draft, tiny_pair):
    """Case 22: temperature, penalties and bias do not touch them."""
    params = SamplingParams(temperature=0.6, top_k=5, presence_penalty=1.0, logit_bias=((33, -100.0),))
    async with clients(tiny_target.address, tiny_draft.address) as (target, draft):
        run = await drafted(target, draft, PROMPT, NUM_TOKENS, params, seed=8, k=3, num_logprobs=2)
    _check(run.logprobs, run.ids, _rows(tiny_pair, PROMPT, run.ids), num_top=2)


async def test_prompt_logprobs_cover_every_token_but_the_first(tiny_target, tiny_pair):
    """Longer than a slice, asked before and after the prefix is in the cache."""
    prompt = [3 + (11 * i) % 60 for i in range(300)]
    rows = [reference.logprobs(row) for row in reference.logits(tiny_pair.target, [prompt])[0, :-1]]
    async with clients(tiny_target.address) as (target, _):
        for _ in range(2):
            line = TargetLine(target, prompt, GREEDY, num_prompt_logprobs=3)
            line.verify(prompt, grant=2)
            answer = await line.expect(PromptLogprobs)
            got = [(await line.verdict()).token for _ in range(3)]
            await line.finish()
            _check(answer.logprobs, prompt[1:], rows, num_top=3)
            assert got == reference.greedy(tiny_pair.target, prompt, 3, GREEDY)


async def test_a_prompt_of_one_token_has_no_logprobs_and_is_answered(tiny_target, tiny_pair):
    async with clients(tiny_target.address) as (target, _):
        line = TargetLine(target, [1], GREEDY, num_prompt_logprobs=3)
        line.verify([1], grant=2)
        answer = await line.expect(PromptLogprobs)
        got = [(await line.verdict()).token for _ in range(3)]
        await line.finish()
    assert len(answer.logprobs) == 0
    assert got == reference.greedy(tiny_pair.target, [1], 3, GREEDY)


async def test_a_sequence_without_logprobs_gets_none(tiny_target):
    async with clients(tiny_target.address) as (target, _):
        assert (await alone(target, PROMPT, 3, GREEDY)).logprobs == []
        zero = await alone(target, PROMPT, 3, GREEDY, num_logprobs=0)
    assert [list(entry.top_ids) for entry in zero.logprobs] == [[], [], []]


def _rows(pair, prompt, emitted):
    return reference.log_softmax(pair.target, prompt, emitted)


def _own(run):
    return np.array([entry.logprob for entry in run.logprobs])


def _check(entries, ids, rows, num_top=5):
    assert len(entries) == len(ids) == len(rows)
    for entry, token, row in zip(entries, ids, rows, strict=True):
        assert abs(entry.logprob - row[token]) < 1e-3
        assert np.allclose(entry.top_logprobs, np.sort(row)[::-1][:num_top], atol=1e-3)
        assert np.allclose(row[list(entry.top_ids)], entry.top_logprobs, atol=1e-3)
