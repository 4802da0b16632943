"""Who may start: in order, bounded, not for ever, and nobody while draining. Time is virtual."""

import asyncio
import math
from contextlib import AsyncExitStack

import pytest

from forerun.errors import Overloaded, ServiceUnavailable
from gateway.api.admission import Admission
from gateway.api.limits import Limits
from tests.support import virtual_time


def admission(running=2, waiting=3):
    return Admission(Limits(running_choices=running, waiting_requests=waiting, queue_s=1.0))


def in_virtual_time(test):
    def run():
        virtual_time.run(test())

    run.__name__ = test.__name__
    return run


async def holds(admission, num_choices, order, name, until, deadline=math.inf):
    async with admission.admitted(num_choices, deadline):
        order.append(name)
        await until.wait()


async def settle():
    for _ in range(5):
        await asyncio.sleep(0)


@in_virtual_time
async def test_what_does_not_fit_waits_and_starts_in_order():
    door, order, ends = admission(), [], {name: asyncio.Event() for name in "abcd"}
    tasks = [
        asyncio.create_task(holds(door, n, order, name, ends[name]))
        for name, n in (("a", 2), ("b", 2), ("c", 1), ("d", 1))
    ]
    await settle()
    assert order == ["a"]
    ends["a"].set()
    await settle()
    assert order == ["a", "b"]
    ends["b"].set()
    await settle()
    assert order == ["a", "b", "c", "d"]
    for end in ends.values():
        end.set()
    await asyncio.gather(*tasks)
    await door.idle()


@in_virtual_time
async def test_without_a_limit_there_are_as_many_places_as_the_targets_have_at_the_moment():
    places, order, end = [1], [], asyncio.Event()
    door = Admission(Limits(queue_s=1.0), lambda: places[0])
    tasks = [asyncio.create_task(holds(door, 1, order, "a", end))]
    await settle()
    places[0] = 3
    tasks += [asyncio.create_task(holds(door, 1, order, name, end)) for name in "bcd"]
    await settle()
    assert order == ["a", "b", "c"]
    end.set()
    await asyncio.gather(*tasks)
    assert order == ["a", "b", "c", "d"]


@in_virtual_time
async def test_who_waits_is_let_in_when_a_target_comes_though_nobody_leaves():
    places, order, end = [1], [], asyncio.Event()
    door = Admission(Limits(queue_s=60.0), lambda: places[0])
    tasks = [asyncio.create_task(holds(door, 1, order, name, end)) for name in "ab"]
    await settle()
    assert order == ["a"]
    places[0] = 2
    await asyncio.sleep(2.0)
    assert order == ["a", "b"]
    end.set()
    await asyncio.gather(*tasks)


@in_virtual_time
async def test_a_small_request_does_not_overtake_a_large_one_that_waits():
    door, order, end = admission(), [], asyncio.Event()
    tasks = [asyncio.create_task(holds(door, n, order, n, end)) for n in (1, 2)]
    await settle()
    tasks.append(asyncio.create_task(holds(door, 1, order, "late", end)))
    await settle()
    assert order == [1]
    end.set()
    await asyncio.gather(*tasks)
    assert order == [1, 2, "late"]


@in_virtual_time
async def test_a_request_of_more_choices_than_places_runs_alone():
    door = admission(running=2)
    async with asyncio.timeout(1), door.admitted(5, math.inf):
        pass


@in_virtual_time
async def test_the_wait_ends_with_the_deadline_and_too_many_do_not_wait_at_all():
    door, loop = admission(waiting=1), asyncio.get_running_loop()
    async with door.admitted(2, math.inf):
        waiting = asyncio.create_task(holds(door, 1, [], "", asyncio.Event(), loop.time() + 1.0))
        await settle()
        with pytest.raises(Overloaded, match="waiting already"):
            async with door.admitted(1, math.inf):
                pass
        with pytest.raises(Overloaded, match="no place"):
            await waiting
        assert loop.time() == pytest.approx(1.0, abs=0.01)
    await door.idle()


@in_virtual_time
async def test_one_that_leaves_in_the_moment_it_is_let_in_gives_its_place_back():
    door, order, end = admission(), [], asyncio.Event()
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(door.admitted(2, math.inf))
        leaving = asyncio.create_task(holds(door, 2, order, "leaving", end))
        await settle()
        await stack.aclose()
        leaving.cancel()
    await asyncio.gather(leaving, return_exceptions=True)
    async with asyncio.timeout(1):
        await door.idle()
        async with door.admitted(2, math.inf):
            pass


@in_virtual_time
async def test_while_draining_nobody_starts_and_who_waits_is_told():
    door, order, end = admission(), [], asyncio.Event()
    running = asyncio.create_task(holds(door, 2, order, "running", end))
    await settle()
    waiting = asyncio.create_task(holds(door, 1, order, "waiting", end))
    await settle()
    door.drain()
    for task in (waiting, asyncio.create_task(holds(door, 1, order, "new", end))):
        with pytest.raises(ServiceUnavailable, match="shutting down"):
            await task
    end.set()
    await running
    await door.idle()
    assert order == ["running"]
