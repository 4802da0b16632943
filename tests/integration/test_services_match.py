"""Under match and at temperature 0 no draft changes the text: real draft and target processes."""

import asyncio

import numpy as np
import pytest

from forerun.types import SamplingParams, Verification
from forerun.v1 import common_pb2
from tests.support import reference
from tests.support.wire import GREEDY, SEEDED, DraftLine, alone, clients, drafted, speculated

PROMPT = (1, 5, 9, 30, 12, 7, 7, 31, 3)
NUM_TOKENS = 40
WARM = SamplingParams(temperature=0.7, top_p=0.95, presence_penalty=0.4, verification=Verification.MATCH)


class Scripted:
    """A draft that proposes `choose(position)` whatever the transcript is."""

    def __init__(self, choose):
        self.choose = choose

    async def propose(self, transcript, k, base_len):
        start = len(transcript)
        return common_pb2.Proposal(base_len=start, tokens=[self.choose(start + i) for i in range(k)])


def random_tokens(position):
    return int(np.random.default_rng(position).integers(64))


BAD_DRAFTS = {
    "random": random_tokens,
    "always EOS": lambda position: 2,
    "unknown ids": lambda position: 64 + position,
    "huge ids": lambda position: 2**32 - 1,
}


@pytest.mark.parametrize("params", [GREEDY, SEEDED, WARM], ids=["greedy", "seeded", "seeded with processors"])
async def test_the_text_of_a_seed_is_that_of_plain_decoding_with_any_k(tiny_target, tiny_draft, params):
    """Cases 7 and 9."""
    async with clients(tiny_target.address, tiny_draft.address) as (target, draft):
        plain = await alone(target, PROMPT, NUM_TOKENS, params, seed=11)
        for k in range(1, 9):
            run = await drafted(target, draft, PROMPT, NUM_TOKENS, params, seed=11, k=k)
            assert run.ids == plain.ids, f"K = {k}"
            assert run.num_accepted > NUM_TOKENS // 5, f"K = {k}: the draft was of no use, so nothing was tested"


@pytest.mark.parametrize("params", [GREEDY, SEEDED], ids=["greedy", "seeded"])
async def test_the_text_of_a_seed_is_that_of_plain_decoding_with_prompt_lookup(tiny_target, tiny_ngram, params):
    """Case 9."""
    async with clients(tiny_target.address, tiny_ngram.address) as (target, draft):
        plain = await alone(target, PROMPT, NUM_TOKENS, params, seed=12)
        for k in (1, 4, 8):
            line = DraftLine(draft, PROMPT, params)
            run = await speculated(target, line, PROMPT, NUM_TOKENS, params, seed=12, k=k)
            await line.finish()
            assert run.ids == plain.ids
            assert run.num_accepted > 0
            assert line.num_held == 0, "what it drafted itself need not be sent back"


@pytest.mark.parametrize("name", BAD_DRAFTS)
@pytest.mark.parametrize("params", [GREEDY, SEEDED], ids=["greedy", "seeded"])
async def test_a_hostile_draft_changes_no_token_under_match(tiny_target, params, name):
    """Case 9: random tokens, always EOS, ids that the target lacks."""
    async with clients(tiny_target.address) as (target, _):
        plain = await alone(target, PROMPT, NUM_TOKENS, params, seed=13)
        for k in (1, 5):
            run = await speculated(target, Scripted(BAD_DRAFTS[name]), PROMPT, NUM_TOKENS, params, seed=13, k=k)
            assert run.ids == plain.ids
            assert all(verdict.refused == "" for _, verdict in run.rounds)


async def test_sixteen_sequences_in_a_batch_say_what_each_says_alone(tiny_target, tiny_draft):
    """Cases 7 and 26: K, seed, length and rule differ within the batch."""

    def one(target, draft, i):
        prompt = PROMPT[: 2 + i % 8]
        params = (GREEDY, SEEDED, WARM)[i % 3]
        return drafted(target, draft, prompt, NUM_TOKENS - i, params, seed=100 + i, k=1 + i % 8)

    async with clients(tiny_target.address, tiny_draft.address) as (target, draft):
        solo = [(await one(target, draft, i)).ids for i in range(16)]
        batch = await asyncio.gather(*(one(target, draft, i) for i in range(16)))
    assert [run.ids for run in batch] == solo


async def test_the_same_seed_five_times_gives_one_text_and_other_seeds_others(tiny_target, tiny_draft):
    """Case 7; and choices of one seed differ (case 21)."""
    async with clients(tiny_target.address, tiny_draft.address) as (target, draft):
        same = [(await drafted(target, draft, PROMPT, 24, SEEDED, seed=5)).ids for _ in range(5)]
        other = [(await drafted(target, draft, PROMPT, 24, SEEDED, seed=seed)).ids for seed in range(6, 10)]
        choices = [(await drafted(target, draft, PROMPT, 24, SEEDED, seed=5, choice=c)).ids for c in range(1, 4)]
    assert same == [same[0]] * 5
    assert len({tuple(ids) for ids in [same[0], *other, *choices]}) == 8


async def test_greedy_text_is_that_of_transformers(tiny_target, tiny_draft, tiny_pair):
    """Case 9: an independent forward, one token at a time."""
    expected = reference.greedy(tiny_pair.target, PROMPT, NUM_TOKENS, GREEDY)
    async with clients(tiny_target.address, tiny_draft.address) as (target, draft):
        assert (await alone(target, PROMPT, NUM_TOKENS, GREEDY)).ids == expected
        assert (await drafted(target, draft, PROMPT, NUM_TOKENS, GREEDY)).ids == expected
