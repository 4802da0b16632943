"""Where Ray really puts replicas, on a cluster of two nodes."""

import os

import pytest

from forerun.cluster.plan import PoolPlan
from forerun.cluster.ray_cluster import RayCluster
from forerun.errors import ServiceUnavailable
from tests.support.ray_fleet import ENVIRON, NAMESPACE

pytestmark = [pytest.mark.full, pytest.mark.timeout(300)]
NODE = {"num_cpus": 3, "object_store_memory": 80 * 2**20, "include_dashboard": False}
TARGET = PoolPlan("target", ("target_service",), 2, 1.0, 0.0, 1, 1)
DRAFT = PoolPlan("draft", ("draft_service",), 1, 1.0, 0.0, 1, 1)
SPREAD_OUT = PoolPlan("target", ("target_service",), 4, 0.5, 0.0, 1, 1)
HUGE = PoolPlan("target", ("target_service",), 1, 64.0, 0.0, 1, 1)


@pytest.fixture
def cluster():
    import ray
    from ray.cluster_utils import Cluster

    os.environ |= ENVIRON
    nodes = Cluster(initialize_head=True, connect=False, head_node_args=NODE)
    nodes.add_node(num_cpus=3, object_store_memory=NODE["object_store_memory"])
    ray.init(nodes.address, namespace=NAMESPACE, log_to_driver=False, configure_logging=False)
    yield RayCluster(ray, NAMESPACE)
    ray.shutdown()
    nodes.shutdown()


async def nodes_of(life):
    return [await actor.node.remote() for actor in life.ranks]


async def test_ranks_are_packed_drafts_kept_apart_and_what_is_removed_leaves_its_room(cluster):
    target = await cluster.place(TARGET, 0, 60)
    first, second = await nodes_of(target)
    assert first == second
    draft = await cluster.place(DRAFT, 0, 60)
    assert await nodes_of(draft) != [first]
    other = await cluster.place(TARGET, 1, 60)
    assert await nodes_of(other) != [first, first]

    assert {life.number for life in cluster.lives("target")} == {0, 1}
    cluster.remove(target)
    assert [life.number for life in cluster.lives("target")] == [1]
    split = await cluster.place(SPREAD_OUT, 2, 60)
    assert len(await nodes_of(split)) == 4


async def test_what_has_no_room_says_so(cluster):
    with pytest.raises(ServiceUnavailable, match="no room for 1 x"):
        await cluster.place(HUGE, 0, 2)
