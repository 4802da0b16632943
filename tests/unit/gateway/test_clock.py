"""What waits are measured with."""

import asyncio

import uvloop

from gateway.clock import running_clock
from tests.support import virtual_time


async def readings(count):
    now = running_clock()
    return {now() for _ in range(count)}


def test_it_moves_within_a_turn_of_uvloop():
    assert len(uvloop.run(readings(50))) > 10


def test_it_agrees_with_the_loops_own_clock_so_that_deadlines_do():
    async def difference():
        return abs(running_clock()() - asyncio.get_running_loop().time())

    assert uvloop.run(difference()) < 1.0
    assert asyncio.run(difference()) < 1.0


def test_it_is_virtual_where_the_loop_is():
    assert virtual_time.run(readings(50)) == {0.0}
