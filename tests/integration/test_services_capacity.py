"""Blocks: freed when a client goes, queued for and preempted when they run out; and an orderly end of the process."""

import asyncio
import signal

import pytest

from tests.support.processes import TINY
from tests.support.wire import GREEDY, SEEDED, DraftLine, TargetLine, alone, clients, drafted

PROMPT = [1, 5, 9, 30, 12]
LONG = [3 + (7 * i) % 59 for i in range(150)]
FREED_S = 1.0


@pytest.fixture(scope="session")
def small_target(fleet, tiny_pair):
    """A target whose cache holds 20 blocks of 16 tokens: two sequences of 150, hardly."""
    return fleet.target(tiny_pair.target, "--cache-tokens", 320, "--max-model-len", 300)


@pytest.fixture(scope="session")
def small_draft(fleet, tiny_pair):
    """A draft whose cache holds 6 blocks of 16 tokens."""
    return fleet.draft(tiny_pair.draft, tiny_pair.target, "--cache-tokens", 96)


async def until_free(client, deadline_s=FREED_S):
    """Returns when every block of the service is free again; asserts that it is within a second."""
    async with asyncio.timeout(deadline_s):
        info = await client.info()
        while info.num_free_blocks != info.num_blocks or info.num_running:
            info = await client.info()


@pytest.mark.parametrize("ending", ["finish", "abort", "cancel", "kill the connection"])
async def test_a_client_that_leaves_frees_both_services_within_a_second(tiny_target, tiny_draft, ending):
    """Case 25: in the middle of a long grant and of a long proposal; the neighbour's text is untouched."""
    async with clients(tiny_target.address, tiny_draft.address) as (target, draft):
        expected = (await alone(target, PROMPT, 80, SEEDED, seed=2)).ids
        neighbour = TargetLine(target, PROMPT, SEEDED, seed=2)
        neighbour.verify(PROMPT, grant=39)
        async with clients(tiny_target.address, tiny_draft.address) as (other_target, other_draft):
            lines = [TargetLine(other_target, LONG, GREEDY), DraftLine(other_draft, LONG, GREEDY)]
            lines[0].verify(LONG, grant=300)
            lines[1].ask(LONG, 300)
            await lines[0].verdict()
            assert (await target.info()).num_free_blocks < (await target.info()).num_blocks - 9
            await _leave(lines, ending)
        got = [(await neighbour.verdict()).token for _ in range(40)]
        neighbour.verify(PROMPT + got, grant=39)
        got += [(await neighbour.verdict()).token for _ in range(40)]
        await neighbour.finish()
        await until_free(target)
        await until_free(draft)
    assert got == expected


async def _leave(lines, ending):
    for line in lines:
        if ending == "finish":
            await line.finish()
        elif ending == "abort":
            line.stream.end(line._request_type(abort={}))
        elif ending == "cancel":
            line.stream._call.cancel()


async def test_a_target_out_of_blocks_preempts_and_everybody_gets_the_right_text(small_target, tiny_target):
    """Case 28: eight sequences in a cache for two; nothing is lost, nobody fails, all blocks come back."""

    async def one(client, i):
        return (await alone(client, LONG[i : i + 90 + i], 60, SEEDED, seed=i)).ids

    async with clients(tiny_target.address) as (roomy, _):
        expected = [await one(roomy, i) for i in range(8)]
    async with clients(small_target.address) as (target, _):
        assert await asyncio.gather(*(one(target, i) for i in range(8))) == expected
        await until_free(target)


async def test_speculation_survives_preemption_of_the_target_and_a_draft_out_of_blocks(
    small_target, small_draft, tiny_target
):
    """Case 28: both caches are too small for all; a draft without blocks answers K = 0 and never queues."""

    async def one(target, draft, i):
        return await drafted(target, draft, LONG[i : i + 60], 50, SEEDED, seed=i, k=4)

    async with clients(tiny_target.address) as (roomy, _):
        expected = [(await alone(roomy, LONG[i : i + 60], 50, SEEDED, seed=i)).ids for i in range(6)]
    async with clients(small_target.address, small_draft.address) as (target, draft):
        runs = await asyncio.gather(*(one(target, draft, i) for i in range(6)))
        await until_free(target)
        await until_free(draft)
    assert [run.ids for run in runs] == expected
    assert any(not proposal.tokens for run in runs for proposal, _ in run.rounds)
    assert sum(run.num_accepted for run in runs) > 0


async def test_a_draft_whose_blocks_others_hold_answers_at_once(small_draft):
    """Case 28: never queues. The sequences that hold the blocks are idle, so one of them may have to give way."""
    async with clients(small_draft.address, small_draft.address) as (_, draft):
        lines = [DraftLine(draft, LONG[i : i + 40], GREEDY) for i in range(5)]
        for turn in range(3):
            for i, line in enumerate(lines):
                proposal = await asyncio.wait_for(line.propose(LONG[i : i + 40], 3), 5)
                assert len(proposal.tokens) in (0, 3), turn
        for line in lines:
            await line.finish()
        await until_free(draft)


async def test_one_place_in_the_batch_serves_many_in_turn(fleet, tiny_pair, tiny_target):
    """Case 28: idle streams do not keep the place; nobody waits for ever and every text is right."""
    narrow = fleet.target(tiny_pair.target, "--max-sequences", 1)
    async with clients(tiny_target.address) as (roomy, _):
        expected = [(await alone(roomy, LONG[i : i + 20], 12, SEEDED, seed=i)).ids for i in range(6)]
    async with clients(narrow.address) as (target, _):
        assert (await target.info()).max_sequences == 1
        idle = TargetLine(target, PROMPT, GREEDY)
        idle.verify(PROMPT)
        await idle.verdict()
        runs = await asyncio.gather(*(alone(target, LONG[i : i + 20], 12, SEEDED, seed=i) for i in range(6)))
        assert [run.ids for run in runs] == expected
        await idle.finish()


async def test_a_sequence_larger_than_the_pool_is_refused_at_open(fleet, tiny_pair, small_target):
    async with clients(small_target.address) as (target, _):
        assert (await target.info()).max_model_len == 300
        error = await TargetLine(target, LONG * 3, GREEDY).reply()
    assert "450 tokens are over the limit of 300" in str(error)


async def test_a_second_turn_prefills_only_what_is_new_unless_its_salt_differs(tiny_target):
    prompt = [3 + (5 * i) % 60 for i in range(100)]
    cached = []
    async with clients(tiny_target.address) as (target, _):
        for salt in ("mine", "mine", "theirs"):
            line = TargetLine(target, prompt, GREEDY, cache_salt=salt)
            line.verify(prompt)
            cached.append((await line.verdict()).num_cached_tokens)
            await line.finish()
            await until_free(target)
    assert cached == [0, 96, 0]


@pytest.mark.parametrize(
    ("module", "number"),
    [("target_service", signal.SIGTERM), ("draft_service", signal.SIGTERM), ("draft_service", signal.SIGINT)],
)
async def test_a_signal_drains_running_streams_and_exits_with_zero(fleet, tiny_pair, module, number):
    """What runs may end within the grace; the process is gone soon after."""
    service = fleet.start(module, "--model", tiny_pair.target, *TINY, "--grace-s", 5).ready()
    async with clients(service.address, service.address) as (target, draft):
        line = TargetLine(target, PROMPT, GREEDY) if module == "target_service" else DraftLine(draft, PROMPT, GREEDY)
        await _ask(line)
        service.popen.send_signal(number)
        await _ask(line)
        await line.finish()
    assert await asyncio.to_thread(service.wait, 10) == 0


async def _ask(line):
    if isinstance(line, DraftLine):
        return await line.propose(PROMPT, 100)
    line.verify(PROMPT, grant=0)
    line.verify(PROMPT, grant=100)
    return await line.verdict()
