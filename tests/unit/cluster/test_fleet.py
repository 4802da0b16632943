"""What a supervisor does with the replicas that it finds."""

import asyncio

import pytest

from forerun.cluster.config import RayConfig
from forerun.cluster.fleet import Fleet
from forerun.cluster.ray_cluster import Life
from tests.support.ray_actors import Actor, Cluster


async def test_one_that_ended_before_its_turn_to_be_replaced_has_been_already():
    pytest.importorskip("ray")
    actor = Actor(arguments=("target_service", "--other"))
    cluster = Cluster(Life("forerun-target-0-abc", 0, (actor,)))
    fleet = Fleet(RayConfig(model="m", drafts=0), cluster)
    await fleet.start()
    actor.over.set()  # its node dies
    while not cluster.removed:
        await asyncio.sleep(0)
    await asyncio.wait_for(fleet.renew(), 1)
    assert not actor.asked_to_stop.is_set()
    await fleet.let_go()
