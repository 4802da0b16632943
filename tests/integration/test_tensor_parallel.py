"""A target over several gloo ranks says what one process says, and ends as a whole when a rank ends."""

import asyncio
import signal
import time

import pytest

from forerun.v1 import common_pb2
from tests.support.ranks import start_ranks
from tests.support.wire import GREEDY, SAMPLED, SEEDED, TargetLine, alone, clients, speculated

PROMPTS = ([1, 5, 9, 30, 12], [7] * 40, list(range(3, 60)))
UNAVAILABLE = "ServiceUnavailable|code: 14"
"""How a stream ends: with its process, or with a word before that."""


class HalfRight:
    """Proposes what is right up to the middle and wrong from there on."""

    def __init__(self, prompt, ids):
        self._right = [*prompt, *ids]

    async def propose(self, transcript, k, base_len):
        start = len(transcript)
        ids = self._right[start : start + k]
        wrong = [(token + 1) % 64 for token in ids[len(ids) // 2 :]]
        return common_pb2.Proposal(base_len=start, tokens=[*ids[: len(ids) // 2], *wrong])


@pytest.fixture(scope="module")
def two_ranks(fleet, tiny_pair):
    ranks = start_ranks(fleet, tiny_pair.target, 2)
    ranks[0].ready()
    return ranks


async def test_two_ranks_say_what_one_process_says(two_ranks, tiny_target):
    async def texts(client):
        lone = [alone(client, prompt, 48, params, seed=3) for prompt in PROMPTS for params in (GREEDY, SEEDED)]
        return [generated.ids for generated in await asyncio.gather(*lone)]

    async with clients(two_ranks[0].address) as (split, _), clients(tiny_target.address) as (whole, _):
        expected = await texts(whole)
        assert await texts(split) == expected
        assert await texts(split) == expected  # now from cached prefixes


async def test_proposals_are_verified_and_cut_alike_on_every_rank(two_ranks, tiny_target):
    async with clients(two_ranks[0].address) as (split, _), clients(tiny_target.address) as (whole, _):
        for prompt in PROMPTS:
            expected = (await alone(whole, prompt, 40, GREEDY)).ids
            drafted = await speculated(split, HalfRight(prompt, expected), prompt, 40, GREEDY)
            assert drafted.ids == expected
            assert 0 < drafted.num_accepted < 40


async def test_a_rank_that_dies_takes_its_replica_down_at_once_and_says_so(two_ranks):
    leader, follower = two_ranks
    async with clients(leader.address) as (client, _):
        line = TargetLine(client, PROMPTS[0], SAMPLED)
        line.verify(PROMPTS[0], grant=400)
        await line.verdict()
        follower.kill()
        killed = time.monotonic()
        with pytest.raises(AssertionError, match=UNAVAILABLE):
            while True:
                await line.verdict()
    assert leader.wait(10) == 1
    assert time.monotonic() - killed < 10
    assert "rank 1 of 2 is gone" in leader.log()


@pytest.mark.full
async def test_the_real_model_over_three_ranks_says_the_same_and_ends_as_a_whole(fleet, bundled_model):
    ranks = start_ranks(fleet, bundled_model, 3)
    whole = fleet.target(bundled_model)
    prompt = [504, 3575, 282, 4649, 314]
    async with clients(ranks[0].ready().address) as (split, _), clients(whole.address) as (one, _):
        assert (await alone(split, prompt, 64, GREEDY)).ids == (await alone(one, prompt, 64, GREEDY)).ids
    for rank in ranks:
        rank.popen.send_signal(signal.SIGTERM)  # as whoever started them may
    assert [rank.wait(20) for rank in ranks] == [0, 0, 0]


@pytest.mark.full
def test_the_real_model_over_two_ranks_is_refused_with_a_way_out(fleet, bundled_model):
    ranks = start_ranks(fleet, bundled_model, 2)
    assert [rank.wait() for rank in ranks] == [2, 2]
    assert "3 would do" in ranks[0].log()
