"""A replica between its supervisor and its actors, which are played."""

import asyncio

import pytest

from forerun.cluster.plan import PoolPlan
from forerun.cluster.ray_cluster import Life
from forerun.cluster.replica import Found, RayReplica
from tests.support.ray_actors import Actor, Cluster

PLAN = PoolPlan("target", ("target_service",), 1, 1.0, 0.0, 1, 1)


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


async def test_what_has_no_life_does_not_drain():
    pytest.importorskip("ray")
    replica = RayReplica(Cluster(), PLAN, 0, 60.0, 60.0)
    await replica.drain()
    assert not replica.is_draining  # its next life would never be ended


async def test_one_that_was_found_with_other_flags_is_current_once_that_life_is_over(serving):
    replica, _, actor, living = serving
    assert not replica.is_current
    actor.over.set()
    await living
    assert replica.is_current
