"""Draft, target and gateway as three processes with tiny models: the text is the target's own."""

import asyncio

import grpc
import pytest

from forerun.types import SamplingParams, Verification
from tests.support import pit, reference
from tests.support.generate import gateway_stub, generate

PROMPT = [1, 5, 9, 30, 12, 7, 7, 31, 3]
NUM_TOKENS = 48
KS = (None, 1, 2, 3, 4, 8)
GREEDY = SamplingParams(temperature=0.0, verification=Verification.MATCH)


@pytest.fixture(scope="session")
def pair_gateway(fleet, tiny_pair, tiny_target, tiny_draft):
    """A gateway over the tiny pair."""
    return fleet.gateway(tiny_pair.target, tiny_target.address, (tiny_draft.address,))


@pytest.fixture(scope="session")
def ngram_gateway(fleet, tiny_pair, tiny_target, tiny_ngram):
    """A gateway over the tiny target and prompt lookup."""
    return fleet.gateway(tiny_pair.target, tiny_target.address, (tiny_ngram.address,))


@pytest.mark.parametrize("fields", [{"temperature": 0.0}, {"seed": 7}, {"seed": 8, "temperature": 0.7, "top_p": 0.9}])
async def test_greedy_and_seeded_text_is_the_same_without_draft_with_any_k_and_with_another_draft(
    pair_gateway, ngram_gateway, fields
):
    """Cases 7 and 9."""
    async with gateway_stub(pair_gateway.address) as stub, gateway_stub(ngram_gateway.address) as ngram:
        plain = await generate(stub, PROMPT, NUM_TOKENS, k=0, **fields)
        assert plain.speculative.num_drafts == 0
        for k in KS:
            answer = await generate(stub, PROMPT, NUM_TOKENS, k=k, **fields)
            assert answer.ids == plain.ids, f"K = {k}"
            assert k is None or answer.speculative.num_accepted_tokens > 0, f"K = {k}"
        assert (await generate(ngram, PROMPT, NUM_TOKENS, k=4, **fields)).ids == plain.ids


async def test_greedy_text_is_that_of_transformers(pair_gateway, tiny_pair):
    expected = reference.greedy(tiny_pair.target, PROMPT, NUM_TOKENS, GREEDY)
    async with gateway_stub(pair_gateway.address) as stub:
        assert (await generate(stub, PROMPT, NUM_TOKENS, k=3, temperature=0.0)).ids == expected


async def test_sixteen_at_once_say_what_each_says_alone(pair_gateway):
    """Cases 7 and 26."""

    def one(stub, i):
        fields = {"temperature": 0.0} if i % 2 else {"seed": i}
        return generate(stub, PROMPT[: 2 + i % 8], NUM_TOKENS - i, k=KS[i % len(KS)], **fields)

    async with gateway_stub(pair_gateway.address) as stub:
        solo = [(await one(stub, i)).ids for i in range(16)]
        assert [answer.ids for answer in await asyncio.gather(*(one(stub, i) for i in range(16)))] == solo


@pytest.mark.parametrize(("k", "fields"), [(4, {}), (None, {}), (2, {"temperature": 0.7, "top_p": 0.9, "top_k": 12})])
async def test_sampled_text_follows_the_targets_law(pair_gateway, tiny_pair, k, fields):
    """Cases 4 and 6: rejection through the gateway's own loop; a false alarm in 1e-5 of runs (3 times 6 p-values)."""
    params = SamplingParams(**fields)
    async with gateway_stub(pair_gateway.address) as stub:

        async def one(i):
            prompt = [1, 3 + i, 50 - i]
            answer = await generate(stub, prompt, 120, k=k, rule="rejection", seed=900 + i, **fields)
            return reference.checkable(tiny_pair, prompt, answer.ids, params), answer.speculative.num_accepted_tokens

        runs = await asyncio.gather(*(one(i) for i in range(16)))
    assert k is None or sum(num_accepted for _, num_accepted in runs) > 200
    assert min(pit.p_values([stream for stream, _ in runs], seed=5)) > 1e-5 / 18


async def test_choices_of_one_seed_differ_are_repeatable_and_usage_adds_up(pair_gateway):
    """Cases 7, 14 and 21: five times the same four texts; the prompt counts once."""
    async with gateway_stub(pair_gateway.address) as stub:
        answers = [await generate(stub, PROMPT, 20, k=k, seed=3, n=4) for k in (0, 1, 3, None, 8)]
    texts = [[answer.choices[i].ids for i in range(4)] for answer in answers]
    assert texts == [texts[0]] * 5
    assert len({tuple(ids) for ids in texts[0]}) == 4
    for answer in answers:
        assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (len(PROMPT), 80)


PARAMS = {
    "penalties": {"frequency_penalty": 0.6, "presence_penalty": 0.4, "repetition_penalty": 1.2},
    "bias": {"logit_bias": {15: -100.0, 24: 3.0}},
    "min tokens": {"min_tokens": 20, "stop_token_ids": [15, 33]},
}


@pytest.mark.parametrize("name", PARAMS)
async def test_penalties_bias_and_minimum_equal_token_by_token_decoding(pair_gateway, tiny_pair, name):
    """Cases 17, 18 and 20."""
    fields = PARAMS[name]
    bias = tuple(fields.get("logit_bias", {}).items())
    known = {key: value for key, value in fields.items() if key not in ("logit_bias", "stop_token_ids")}
    stops = tuple(fields.get("stop_token_ids", ()))
    params = SamplingParams(temperature=0.0, logit_bias=bias, stop_token_ids=stops, **known)
    expected = reference.greedy(tiny_pair.target, PROMPT, NUM_TOKENS, params)
    end = next((i for i, token in enumerate(expected) if token in stops and i >= params.min_tokens), NUM_TOKENS)
    async with gateway_stub(pair_gateway.address) as stub:
        for k in (0, 1, 4, 8):
            answer = await generate(stub, PROMPT, NUM_TOKENS, k=k, temperature=0.0, **fields)
            assert answer.ids[:end] == expected[:end], f"K = {k}"
            assert len(answer.ids) <= end + 1
            assert answer.choices[0].finish_reason == ("stop" if end < NUM_TOKENS else "length")


@pytest.mark.parametrize("fields", [{"temperature": 0.0}, {"seed": 4}])
async def test_logprobs_are_those_of_plain_decoding_and_of_transformers(pair_gateway, tiny_pair, fields):
    """Case 22: within 1e-3."""
    async with gateway_stub(pair_gateway.address) as stub:
        plain = await generate(stub, PROMPT, NUM_TOKENS, k=0, logprobs=3, **fields)
        spec = await generate(stub, PROMPT, NUM_TOKENS, k=5, logprobs=3, **fields)
    rows = reference.log_softmax(tiny_pair.target, PROMPT, plain.ids)
    assert spec.ids == plain.ids
    for answer in (plain, spec):
        entries = answer.choices[0].logprobs
        assert len(entries) == NUM_TOKENS
        for entry, token, row in zip(entries, plain.ids, rows, strict=True):
            assert abs(entry.logprob - row[token]) < 1e-3
            assert abs(entry.top_logprobs[0] - row.max()) < 1e-3
            assert len(entry.top_logprobs) == 3


@pytest.mark.parametrize("k", KS)
async def test_prompt_and_answer_fill_the_context_exactly(pair_gateway, tiny_pair, k):
    """Case 15; one token more is refused before anything runs."""
    prompt = [3 + (7 * i) % 59 for i in range(500)]
    async with gateway_stub(pair_gateway.address) as stub:
        answer = await generate(stub, prompt, 12, k=k, temperature=0.0)
        assert answer.ids == reference.greedy(tiny_pair.target, prompt, 12, GREEDY)
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await generate(stub, prompt, 13, k=k, temperature=0.0)
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "512" in refused.value.details()


async def test_past_the_drafts_context_the_text_goes_on(fleet, tiny_short_draft_pair, tiny_target, tiny_pair):
    """Case 16: the draft's context is 64 tokens."""
    short = fleet.draft(tiny_short_draft_pair.draft, tiny_short_draft_pair.target)
    gateway = fleet.gateway(tiny_pair.target, tiny_target.address, (short.address,))
    async with gateway_stub(gateway.address) as stub:
        for start in (20, 62, 64, 65, 100):
            prompt = [3 + (7 * i) % 59 for i in range(start)]
            plain = await generate(stub, prompt, 90, k=0, seed=1)
            assert (await generate(stub, prompt, 90, k=4, seed=1)).ids == plain.ids
