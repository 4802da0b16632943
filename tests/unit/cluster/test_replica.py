"""A replica between its supervisor and its actors, which are played."""

import asyncio

import pytest

from forerun.cluster.plan import PoolPlan
from forerun.cluster.ray_cluster import Life
from forerun.cluster.replica import Found, RayReplica

PLAN = PoolPlan("target", ("target_service",), 1, 1.0, 0.0, 1, 1)


class Method:
    """A method of an actor: what it does goes on though nobody waits for it any more."""

    def __init__(self, does):
        self._does = does

    def remote(self, *arguments):
        return asyncio.shield(asyncio.ensure_future(self._does(*arguments)))


class Actor:
    """Ends when `over` is set."""

    def __init__(self):
        self.over, self.asked_to_stop = asyncio.Event(), asyncio.Event()
        self.ended, self.stop = Method(self._ended), Method(self._stop)

    async def _ended(self):
        await self.over.wait()
        return "ended with status 0"

    async def _stop(self, timeout_s):
        self.asked_to_stop.set()
        await self.over.wait()


class Cluster:
    """Remembers what was removed."""

    def __init__(self):
        self.removed = []

    def remove(self, life):
        self.removed.append(life)


@pytest.fixture
async def serving():
    """A replica that was taken over, its cluster, its actor and the task in which it lives."""
    pytest.importorskip("ray")
    cluster, actor = Cluster(), Actor()
    found = Found(Life("forerun-target-0-abc", 0, (actor,)), "host:1", "host:9", is_current=False)
    replica = RayReplica(cluster, PLAN, 0, 60.0, 60.0, found)
    living = asyncio.create_task(replica.live())
    await asyncio.sleep(0)
    yield replica, cluster, actor, living
    living.cancel()


async def let_go(living):
    living.cancel()
    with pytest.raises(asyncio.CancelledError):
        await living


async def test_it_says_where_it_serves_and_where_its_metrics_are(serving):
    replica, _, _, _ = serving
    assert (replica.address, replica.metrics_address, replica.is_draining) == ("host:1", "host:9", False)


async def test_one_that_is_let_go_serves_on(serving):
    _, cluster, _, living = serving
    await let_go(living)
    assert not cluster.removed


async def test_one_that_drains_is_let_finish(serving):
    replica, cluster, actor, living = serving
    draining = asyncio.create_task(replica.drain())
    await actor.asked_to_stop.wait()
    assert (replica.address, replica.metrics_address, replica.is_draining) == (None, "host:9", True)
    draining.cancel()  # who replaced it is told to stop
    await let_go(living)
    assert not cluster.removed
    actor.over.set()


async def test_of_one_that_has_drained_nothing_is_left(serving):
    replica, cluster, actor, living = serving
    draining = asyncio.create_task(replica.drain())
    await actor.asked_to_stop.wait()
    actor.over.set()
    assert await living == "ended with status 0"
    await draining
    assert [life.name for life in cluster.removed] == ["forerun-target-0-abc"]
    assert (replica.address, replica.metrics_address, replica.is_draining) == (None, None, False)
