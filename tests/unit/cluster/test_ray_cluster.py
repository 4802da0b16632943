"""Placement groups are detached: what a supervisor asked for and no longer wants must not stay behind."""

import asyncio
import threading

import pytest

from forerun.cluster.command import _stop_all
from forerun.cluster.plan import PoolPlan
from forerun.cluster.ray_cluster import RayCluster
from forerun.cluster.replica import RayReplica

PLAN = PoolPlan("target", ("target_service",), 2, 1.0, 1.0, 1, 1)


class Group:
    """One that never finds its room; `wait` blocks its thread as Ray's does."""

    def __init__(self, name):
        self.name, self.asked_s, self.over = name, [], threading.Event()
        self.is_waited_for = threading.Event()

    def wait(self, timeout_s):
        self.asked_s.append(timeout_s)
        self.is_waited_for.set()
        self.over.wait(timeout_s)
        return False


class FullRay:
    """Ray on a cluster without a node: groups of any namespace are in the table, only ours are found by name."""

    def __init__(self, *names, elsewhere=()):
        self.util = self
        self.groups = {name: Group(name) for name in names}
        self._elsewhere = elsewhere

    def nodes(self):
        return []

    def list_named_actors(self):
        return []

    def placement_group(self, bundles, name, **how):
        return self.groups.setdefault(name, Group(name))

    def get_placement_group(self, name):
        if name not in self.groups:
            raise ValueError(f"Failed to look up placement group with name: {name}")
        return self.groups[name]

    def remove_placement_group(self, group):
        del self.groups[group.name]

    def placement_group_table(self):
        return {name: {"name": name, "state": "PENDING"} for name in (*self.groups, *self._elsewhere)}


@pytest.fixture
def no_nodes(monkeypatch):
    state = pytest.importorskip("ray._private.state")
    monkeypatch.setattr(state, "available_resources_per_node", dict)


async def test_cancelled_while_it_waits_for_room_a_replica_leaves_no_group_and_no_thread_behind(no_nodes):
    ray = FullRay()
    living = asyncio.create_task(RayReplica(RayCluster(ray, "ours"), PLAN, 0, 900.0, 60.0).live())
    while not ray.groups:
        await asyncio.sleep(0.001)
    (group,) = ray.groups.values()
    try:
        assert await asyncio.to_thread(group.is_waited_for.wait, 10)
        living.cancel()
        with pytest.raises(asyncio.CancelledError):
            await living
        assert ray.groups == {}
        assert max(group.asked_s) <= 1  # the event loop joins that thread when it ends
    finally:
        group.over.set()


async def test_what_finds_no_room_in_time_leaves_no_group_behind(no_nodes):
    ray = FullRay()
    replica = RayReplica(RayCluster(ray, "ours"), PLAN, 0, 0.01, 60.0)
    with pytest.raises(Exception, match="no room for 2 x"):
        await replica.live()
    assert ray.groups == {}


async def test_down_removes_groups_that_have_no_actor_yet_and_nobody_elses(capsys):
    ray = FullRay("forerun-target-1-abc", "theirs", elsewhere=["forerun-target-0-def"])
    await _stop_all(RayCluster(ray, "ours"))
    assert set(ray.groups) == {"theirs"}
