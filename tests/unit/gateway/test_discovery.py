"""Replicas come and go with what is listed or named in DNS, without a restart and without a stream cut."""

import asyncio
import socket

import pytest

from forerun.errors import ConfigError, ServiceUnavailable
from gateway.discovery import ASK_S, ASK_SOON_S, Discovery, Dns, Listed, Place, sources
from gateway.pairing import PairCheck
from gateway.replica import MAX_PAUSE_S
from gateway.replicas import PROBE_S, Replicas, wait_for_one
from tests.support.coordinating import OURS
from tests.support.scripted_services import TOKENS, info
from tests.support.virtual_time import run


class Peer:
    def __init__(self, place):
        self.address, self.name, self.place = place.address, f"target at {place.address}", place
        self.answer, self.closed = info("target"), False

    async def info(self, timeout_s=5.0):
        if self.answer is None:
            raise ServiceUnavailable(f"{self.address} does not answer")
        return self.answer

    async def vocabulary(self):
        return TOKENS

    async def close(self):
        self.closed = True


class Named:
    """A name server: `hosts` are the addresses of one name; None answers nothing."""

    def __init__(self, *hosts):
        self.hosts, self.num_asked = hosts, 0

    async def __call__(self, name, port):
        self.num_asked += 1
        if self.hosts is None:
            raise socket.gaierror(-3, "Temporary failure in name resolution")
        return [(socket.AF_INET, 1, 6, "", (host, port)) for host in self.hosts]


class World:
    """Replicas of one name."""

    def __init__(self, *hosts, check=None):
        self.dns, self.peers = Named(*hosts), []
        self.replicas = Replicas([], check or PairCheck(OURS, "target"))
        self.discovery = Discovery([Dns("targets.svc", 1, self.dns)], self.replicas, self.connect)

    def connect(self, place):
        self.peers.append(Peer(place))
        return self.peers[-1]

    @property
    def used(self):
        return {replica.address for replica in self.replicas.all if replica.healthy}


def living(scenario, *hosts, **world):
    """Runs `scenario(world)` in virtual time on a discovery that was started."""

    async def live():
        made = World(*hosts, **world)
        await made.discovery.start()
        try:
            return await scenario(made)
        finally:
            await made.discovery.close()

    return run(live())


def test_every_address_of_a_name_is_a_replica_and_the_name_goes_with_it():
    async def scenario(world):
        assert world.used == {"10.0.0.1:1", "10.0.0.2:1"}
        assert {peer.place.name for peer in world.peers} == {"targets.svc"}

    living(scenario, "10.0.0.1", "10.0.0.2")


def test_replicas_come_and_go_without_a_restart():
    async def scenario(world):
        world.dns.hosts = ("10.0.0.2", "10.0.0.3")
        await asyncio.sleep(ASK_S + 0.1)
        assert world.used == {"10.0.0.2:1", "10.0.0.3:1"}
        assert [peer.closed for peer in world.peers] == [True, False, False]

    living(scenario, "10.0.0.1", "10.0.0.2")


def test_a_replica_that_is_no_longer_named_keeps_its_sequences_until_they_end():
    async def scenario(world):
        [leaving] = [replica for replica in world.replicas.all if replica.address == "10.0.0.1:1"]
        leaving.joined()
        world.dns.hosts = ("10.0.0.2",)
        await asyncio.sleep(60)
        assert world.used == {"10.0.0.2:1"} and not leaving.client.closed
        leaving.left()
        await asyncio.sleep(0.1)
        assert leaving.client.closed

    living(scenario, "10.0.0.1", "10.0.0.2")


def test_the_name_is_asked_for_soon_after_a_failure():
    async def scenario(world):
        await asyncio.sleep(ASK_SOON_S)
        world.dns.hosts = ("10.0.0.9",)
        [replica] = world.replicas.all
        replica.client.answer = None
        world.replicas.failed(replica, ServiceUnavailable("gone"))
        await asyncio.sleep(ASK_SOON_S / 2)
        return world.used

    assert living(scenario, "10.0.0.1") == {"10.0.0.9:1"}


def test_a_replica_that_stays_dead_does_not_have_the_name_asked_for_without_end():
    async def scenario(world):
        world.peers[0].answer = None
        await asyncio.sleep(100 * ASK_S)
        return world.dns.num_asked

    assert living(scenario, "10.0.0.1", "10.0.0.2") <= 104


def test_a_name_server_that_fails_changes_nothing():
    async def scenario(world):
        world.dns.hosts = None
        await asyncio.sleep(10 * ASK_S)
        assert "cannot be resolved" in world.replicas.trouble
        return world.used

    assert living(scenario, "10.0.0.1") == {"10.0.0.1:1"}


def test_a_name_that_has_no_address_yet_is_waited_for():
    async def scenario(world):
        assert world.replicas.all == []
        waiting = asyncio.create_task(wait_for_one(world.replicas, "target"))
        await asyncio.sleep(3)
        world.dns.hosts = ("10.0.0.1",)
        return (await waiting).address

    assert living(scenario) == "10.0.0.1:1"


def test_a_misfit_at_the_start_is_refused_and_one_that_comes_later_is_not_used():
    check = PairCheck(OURS, "target")

    def small(place):
        peer = Peer(place)
        peer.answer = info("target", max_model_len=50 if place.address == "10.0.0.2:1" else 100)
        return peer

    class Later(World):
        connect = staticmethod(small)

    async def live():
        world = Later("10.0.0.1", check=check)
        await world.discovery.start()
        check.min_model_len = 100
        world.dns.hosts = ("10.0.0.1", "10.0.0.2")
        await asyncio.sleep(ASK_S + 1)
        complaints = [replica.complaint for replica in world.replicas.all]
        await world.discovery.close()
        again = Later("10.0.0.2", check=check)
        with pytest.raises(ConfigError, match="context of 50"):
            await again.discovery.start()
        return world.used, complaints

    used, complaints = run(live())
    assert used == {"10.0.0.1:1"}
    assert "start all with one --max-model-len" in complaints[1]


def test_a_replica_that_answers_and_yet_fails_is_avoided_ever_longer_but_better_than_none():
    async def scenario(world):
        bad, good = world.replicas.all
        for _ in range(6):
            world.replicas.failed(bad, ServiceUnavailable("broke its stream"))
            await asyncio.sleep(PROBE_S + 0.1)
        assert bad.healthy and {world.replicas.pick(bytes([i])) for i in range(50)} == {good}
        world.replicas.failed(good, ServiceUnavailable("gone"))
        assert world.replicas.pick(b"") is bad
        await asyncio.sleep(MAX_PAUSE_S + 1)
        assert {world.replicas.pick(bytes([i])) for i in range(50)} == {good, bad}
        bad.worked()
        world.replicas.failed(bad, ServiceUnavailable("broke its stream"))
        await asyncio.sleep(PROBE_S + 0.1)
        assert bad in {world.replicas.pick(bytes([i])) for i in range(50)}

    living(scenario, "10.0.0.1", "10.0.0.2")


async def test_sources_of_both_kinds_and_what_is_neither():
    listed, named = sources(("10.0.0.1:50052", "dns:///localhost:50052"), "--target")
    assert isinstance(listed, Listed) and isinstance(named, Dns)
    assert await listed.places() == {Place("10.0.0.1:50052", "10.0.0.1")}
    assert Place("127.0.0.1:50052", "localhost") in await named.places()  # by this machine's own resolver
    [six] = sources(("[::1]:50052",), "--target")
    assert await six.places() == {Place("[::1]:50052", "::1")}
    for text in ("host", "dns://host:1", "dns:///host", ":50052", "host:port"):
        with pytest.raises(ConfigError, match="--target: "):
            sources((text,), "--target")


async def test_a_name_that_does_not_exist_is_said_so():
    for name in ("nowhere.invalid", "a" * 70 + ".test"):  # the second has a label that no name can have
        with pytest.raises(ServiceUnavailable, match=rf"{name} cannot be resolved"):
            await Dns(name, 1).places()
