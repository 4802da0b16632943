"""A pool keeps its replicas running, in virtual time and without Ray."""

import asyncio
import itertools

from forerun.cluster.load import Load
from forerun.cluster.pool import FIRST_DELAY_S, LONGEST_DELAY_S, STABLE_S, Pool
from forerun.errors import ServiceUnavailable
from tests.support import virtual_time


class Scripted:
    """A replica that serves for so many seconds in its lives; 0 fails to start, and the last life has no end."""

    def __init__(self, number, lives=(), drains_s=0.0):
        self.number, self.address, self.metrics_address = number, None, None
        self.is_draining, self.how = False, None
        self.started_at = []
        self._lives, self._drains_s = list(lives), drains_s
        self._ended = asyncio.Event()

    async def live(self):
        self.started_at.append(asyncio.get_running_loop().time())
        serves_s = self._lives.pop(0) if self._lives else None
        if serves_s == 0:
            raise ServiceUnavailable("no room")
        self.address, self.metrics_address = f"host:{self.number}", f"host:9{self.number}"
        try:
            await asyncio.wait_for(self._ended.wait(), serves_s)
            self.how = "it drained"
        except TimeoutError:
            self.how = "it ended"
        self.address = self.metrics_address = None
        return self.how

    async def load(self):
        if self.number == 1:
            raise OSError("no answer")
        return Load(1.0, 2.0)

    async def drain(self):
        self.address, self.is_draining = None, True
        await asyncio.sleep(self._drains_s)
        self._ended.set()


def in_virtual_time(test):
    def run():
        virtual_time.run(test())

    return run


def scripted_pool(**script):
    made = []

    def new(number):
        made.append(Scripted(number, **script))
        return made[-1]

    return Pool(new), made


@in_virtual_time
async def test_a_replica_that_ends_is_started_again_with_growing_delays_up_to_a_bound():
    pool, (made) = scripted_pool(lives=[1.0] * 9)
    pool.resize(1)
    await asyncio.sleep(1000)
    times = made[0].started_at
    pauses = [later - earlier - 1.0 for earlier, later in itertools.pairwise(times)]
    assert pauses == [min(FIRST_DELAY_S * 2**n, LONGEST_DELAY_S) for n in range(9)]
    assert pool.addresses() == ["host:0"]
    await pool.drain()


@in_virtual_time
async def test_one_that_served_long_is_started_again_as_if_it_never_failed():
    pool, made = scripted_pool(lives=[1.0, 1.0, 1.0, STABLE_S + 1, 1.0])
    pool.resize(1)
    await asyncio.sleep(2 * STABLE_S)
    times = made[0].started_at
    assert times[4] - times[3] == STABLE_S + 1 + FIRST_DELAY_S
    await pool.drain()


@in_virtual_time
async def test_one_that_finds_no_room_is_tried_again():
    pool, made = scripted_pool(lives=[0, 0])
    pool.resize(2)
    await asyncio.sleep(60)
    assert [len(replica.started_at) for replica in made] == [3, 3]
    assert pool.addresses() == ["host:0", "host:1"]
    await pool.drain()


@in_virtual_time
async def test_the_last_to_come_goes_first_and_is_off_the_list_while_it_drains():
    pool, made = scripted_pool(drains_s=30)
    pool.resize(2)
    await asyncio.sleep(1)
    pool.resize(1)
    await asyncio.sleep(1)
    assert pool.addresses() == ["host:0"]
    pool.resize(2)  # its number is not given to another while it is there
    await asyncio.sleep(1)
    assert [replica.number for replica in made] == [0, 1, 2]
    await asyncio.sleep(60)
    assert len(made[1].started_at) == 1
    await pool.drain()
    assert pool.addresses() == []


@in_virtual_time
async def test_one_that_drains_already_has_its_time_when_all_are_to_end():
    pool, made = scripted_pool(drains_s=30)
    pool.resize(2)
    await asyncio.sleep(1)
    replacing = asyncio.create_task(made[0].drain())  # one that ran with other flags
    await asyncio.sleep(1)
    pool.resize(1)
    await pool.drain()
    assert [replica.how for replica in made] == ["it drained"] * 2
    await replacing


@in_virtual_time
async def test_one_that_drains_is_scraped_until_it_is_gone():
    pool, _ = scripted_pool(drains_s=30)
    pool.resize(2)
    assert pool.metrics_addresses() == []
    await asyncio.sleep(1)
    assert pool.metrics_addresses() == ["host:90", "host:91"]
    pool.resize(1)
    await asyncio.sleep(1)
    assert pool.addresses() == ["host:0"]
    assert pool.metrics_addresses() == ["host:90", "host:91"]
    await asyncio.sleep(60)
    assert pool.metrics_addresses() == ["host:90"]
    await pool.drain()


@in_virtual_time
async def test_loads_are_of_those_that_serve_and_unknown_of_one_that_does_not_answer():
    pool, _ = scripted_pool()
    pool.resize(3)
    assert await pool.loads() == []
    await asyncio.sleep(1)
    assert await pool.loads() == [Load(1.0, 2.0), None, Load(1.0, 2.0)]
    await pool.drain()


@in_virtual_time
async def test_one_that_does_not_serve_goes_before_those_that_came_after_it():
    pool, made = scripted_pool()
    pool.resize(3)
    await asyncio.sleep(1)
    made[1].address = None  # its node is gone, and no other has room
    pool.resize(2)
    await asyncio.sleep(1)
    assert pool.addresses() == ["host:0", "host:2"]
    await pool.drain()


@in_virtual_time
async def test_replicas_that_are_let_go_go_on():
    pool, made = scripted_pool()
    pool.resize(1)
    await asyncio.sleep(1)
    await pool.let_go()
    assert made[0].address == "host:0"
