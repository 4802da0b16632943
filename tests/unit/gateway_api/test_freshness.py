"""Readiness: a token of the last ten seconds, else one probe."""

import asyncio

from forerun.errors import ServiceUnavailable
from gateway.api.freshness import Freshness
from tests.support.fake_coordinator import FakeCoordinator


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


async def test_a_probe_is_made_only_where_no_token_is_fresh():
    clock, coordinator = Clock(), FakeCoordinator(lambda request: [1])
    freshness = Freshness(coordinator, clock)
    assert await freshness.check() == ""
    clock.now += 9
    assert await freshness.check() == ""
    assert len(coordinator.requests) == 1
    clock.now += 2
    assert await freshness.check() == ""
    assert len(coordinator.requests) == 2
    clock.now += 9
    freshness.token()
    clock.now += 9
    assert await freshness.check() == ""
    assert len(coordinator.requests) == 2


async def test_probes_asked_for_together_are_one():
    coordinator = FakeCoordinator(lambda request: [1])
    freshness = Freshness(coordinator, Clock())
    assert await asyncio.gather(*(freshness.check() for _ in range(5))) == [""] * 5
    assert len(coordinator.requests) == 1


async def test_those_that_fail_are_one_too():
    hanging = FakeCoordinator(lambda request: [1], gate=asyncio.Event())
    freshness = Freshness(hanging, Clock(), probe_timeout_s=0.05)
    async with asyncio.timeout(0.2):
        answers = await asyncio.gather(*(freshness.check() for _ in range(20)))
    assert all("no token" in answer for answer in answers)
    assert len(hanging.requests) == 1


async def test_a_probe_that_fails_or_hangs_says_so_and_leaves_nothing_behind():
    failing = FakeCoordinator(lambda request: [1], failure=ServiceUnavailable("gone"))
    assert await Freshness(failing, Clock()).check() == "gone"
    hanging = FakeCoordinator(lambda request: [1], gate=asyncio.Event())
    assert "no token" in await Freshness(hanging, Clock(), probe_timeout_s=0.01).check()
    assert (hanging.num_running, hanging.num_aborted) == (0, 1)
