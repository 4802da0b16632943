"""Case 28: a target whose cache is too small for all says every second whom it keeps waiting and why."""

import asyncio
import time
from contextlib import asynccontextmanager

import httpx
import pytest

from forerun.types import SamplingParams, Verification
from tests.support import reference, tiny
from tests.support.processes import Gateway
from tests.support.wire import GREEDY, SEEDED, TargetLine, alone, clients

CONTEXT = 4096
LONG, LONGER = ([3 + (step * i) % 59 for i in range(length)] for step, length in ((7, 1500), (5, 3000)))
SLOW = SamplingParams(repetition_penalty=1.1, top_p=0.9, verification=Verification.MATCH)
REASON = "waiting for cache blocks"


@pytest.fixture(scope="module")
def long_pair(tmp_path_factory):
    """A pair with a context of 4096 tokens."""
    return tiny.build_pair(tmp_path_factory.mktemp("long"), max_model_len=CONTEXT)


@pytest.fixture(scope="module")
def full_target(fleet, long_pair):
    """A target whose cache holds one such context and no more."""
    return fleet.target(long_pair.target, "--cache-tokens", CONTEXT)


@asynccontextmanager
async def hogs(target, num):
    """Sequences that came earlier and go on to the end of the context, two of them at once; they end with the block."""
    lines = [TargetLine(target, LONG, SLOW, num_logprobs=20) for _ in range(num)]
    for line in lines:
        line.verify(LONG, grant=CONTEXT)
    await lines[0].verdict()
    yield lines
    for line in lines:
        await line.finish()


async def test_a_queued_sequence_is_told_every_second_and_gets_its_token_in_the_end(full_target, long_pair):
    async with clients(full_target.address) as (target, _):
        async with hogs(target, 3):
            queued = TargetLine(target, LONGER, GREEDY)
            queued.verify(LONGER)
            assert await queued.until_waiting(1) == []
            started = time.monotonic()
            assert await queued.until_waiting(2) == []
            assert time.monotonic() - started > 0.9
        verdict = await queued.verdict()
        await queued.finish()
    assert all(REASON in reason for reason in queued.waited_for)
    assert [verdict.token] == reference.greedy(long_pair.target, LONGER, 1, GREEDY)


async def test_a_preempted_sequence_is_told_too_and_goes_on_where_it_was(full_target):
    async with clients(full_target.address) as (target, _):
        async with hogs(target, 1):
            line = TargetLine(target, LONG, SEEDED, seed=4)
            line.verify(LONG, grant=1500)
            verdicts = await line.until_waiting(1)
        assert 0 < len(verdicts) < 1500
        verdicts += [await line.verdict() for _ in range(1501 - len(verdicts))]
        await line.finish()
        assert [verdict.token for verdict in verdicts] == (await alone(target, LONG, 1501, SEEDED, seed=4)).ids
    assert REASON in line.waited_for[0]


async def test_a_gateway_waits_for_as_long_as_the_target_says_that_it_waits(full_target, long_pair):
    """Twice its limit on silence: no failover, no error, the right token."""
    gateway = Gateway(long_pair.target, full_target.address, (), "--target-timeout-s", 2)
    try:
        await asyncio.to_thread(gateway.ready)
        async with clients(full_target.address) as (target, _), httpx.AsyncClient(base_url=gateway.url) as http:
            async with hogs(target, 3):
                body = {"prompt": LONGER, "max_tokens": 1, "temperature": 0, "return_token_ids": True}
                asked = asyncio.create_task(http.post("/v1/completions", json=body, timeout=60))
                watching = TargetLine(target, LONGER, GREEDY)
                watching.verify(LONGER)
                assert await watching.until_waiting(4) == []
                assert not asked.done()
            answer = await asked
            await watching.finish()
            metrics = (await http.get("/metrics")).text
    finally:
        gateway.kill()
        gateway.close()
    assert answer.json()["choices"][0]["token_ids"] == reference.greedy(long_pair.target, LONGER, 1, GREEDY)
    assert "forerun_failovers_total 0.0" in metrics
