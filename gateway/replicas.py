"""The replicas of one service: which are healthy, and which of them a prompt sticks to."""

import asyncio
import hashlib
import itertools
import logging
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Generic, TypeVar

import numpy as np

from forerun.errors import ConfigError, ForerunError, ServiceUnavailable
from forerun.rpc.clients import UNARY_TIMEOUT_S, Peer
from forerun.types import ServiceInfo

C = TypeVar("C", bound=Peer)
Check = Callable[[Peer, ServiceInfo], Awaitable[None]]

PROBE_S = 1.0  # between looks at an unhealthy replica; a healthy one is looked at every tenth time
LOOK_S = 2.0  # a replica under suspicion has so long to answer, and an answer clears it for so long
STICKY_TOKENS = 64  # prompts that share these (and the salt) go to one replica, whose prefix cache knows them
_log = logging.getLogger("forerun.replicas")


class Replica(Generic[C]):
    """One address: its client, what it last said of itself, and how many sequences run there."""

    def __init__(self, client: C) -> None:
        self.client = client
        self.info: ServiceInfo | None = None
        self.healthy = False
        self.num_sequences = 0
        self.complaint = ""
        self.answered_at = 0.0
        self.looking = asyncio.Lock()


class Replicas(Generic[C]):
    """A static list of replicas, probed until closed. `check` raises ConfigError for one that may never be used."""

    def __init__(self, clients: Sequence[C], check: Check) -> None:
        self.all = [Replica(client) for client in clients]
        self._check = check
        self._probing: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Looks at every replica once, then goes on looking in the background. Raises ConfigError for a misfit."""
        await asyncio.gather(*(self.probe(replica) for replica in self.all))
        self._probing = [asyncio.create_task(self._keep_probing(replica)) for replica in self.all]

    async def close(self) -> None:
        """Stops probing and closes the connections."""
        for task in self._probing:
            task.cancel()
        await asyncio.gather(*(replica.client.close() for replica in self.all))

    def pick(self, key: bytes, excluded: Collection[Replica[C]] = ()) -> Replica[C] | None:
        """The healthy replica that `key` sticks to (rendezvous hashing); None where there is none."""
        usable = [replica for replica in self.all if replica.healthy and replica not in excluded]
        return max(usable, key=lambda replica: _score(replica.client.address, key), default=None)

    def failed(self, replica: Replica[C], error: ForerunError) -> None:
        """Takes `replica` out until a probe finds it well again."""
        if replica.healthy:
            _log.warning("%s is out: %s", replica.client.name, error)
        replica.healthy = False

    async def still_answers(self, replica: Replica[C]) -> bool:
        """Whether a replica that fell silent may be waited for; one that does not answer within LOOK_S is out.

        Sequences that notice together share one look.
        """
        async with replica.looking:
            age_s = asyncio.get_running_loop().time() - replica.answered_at
            if replica.healthy and age_s > LOOK_S:
                await self._probe_late(replica, LOOK_S)
        return replica.healthy

    async def probe(self, replica: Replica[C], timeout_s: float = UNARY_TIMEOUT_S) -> None:
        """Asks one replica for its info; healthy afterwards iff it answered and `check` had nothing against it."""
        try:
            info = await replica.client.info(timeout_s)
            if _identity(info) != _identity(replica.info) or not replica.healthy:
                await self._check(replica.client, info)
        except ConfigError:
            replica.healthy = False
            raise
        except ForerunError as error:
            self.failed(replica, error)
            replica.complaint = str(error)
            return
        if not replica.healthy:
            _log.info("%s is in: %s, %s", replica.client.name, info.model, info.backend)
        replica.info, replica.healthy, replica.complaint = info, True, ""
        replica.answered_at = asyncio.get_running_loop().time()

    async def _keep_probing(self, replica: Replica[C]) -> None:
        """Each replica has a task of its own: one that hangs delays the return of no other."""
        for turn in itertools.count(1):
            await asyncio.sleep(PROBE_S)
            if turn % 10 == 0 or not replica.healthy:
                await self._probe_late(replica)

    async def _probe_late(self, replica: Replica[C], timeout_s: float = UNARY_TIMEOUT_S) -> None:
        """A misfit that turns up while we serve is never used, and said once."""
        try:
            await self.probe(replica, timeout_s)
        except ConfigError as error:
            if replica.complaint != str(error):
                _log.error("%s will not be used: %s", replica.client.name, error)
            replica.complaint = str(error)


async def wait_for_one(replicas: "Replicas[C]", service: str) -> Replica[C]:
    """Returns when a replica is healthy; says what is missing meanwhile. Raises ConfigError for a misfit."""
    said = ""
    while True:
        for replica in replicas.all:
            if replica.healthy:
                return replica
        complaints = "; ".join(replica.complaint for replica in replicas.all)
        if complaints != said:
            _log.warning("waiting for a %s: %s", service, complaints)
            said = complaints
        await asyncio.sleep(PROBE_S / 4)
        await asyncio.gather(*(replicas.probe(replica) for replica in replicas.all))


def sticky_key(prompt: Sequence[int], cache_salt: str) -> bytes:
    """Equal for prompts of one salt that begin alike."""
    return cache_salt.encode() + b"\0" + np.asarray(prompt[:STICKY_TOKENS], "<u4").tobytes()


def no_replica(service: str, replicas: "Replicas[C]") -> ServiceUnavailable:
    """The error for having nobody to ask."""
    complaints = "; ".join(replica.complaint for replica in replicas.all if replica.complaint)
    return ServiceUnavailable(f"no {service} replica answers ({complaints or 'all failed just now'}); try again later")


def _identity(info: ServiceInfo | None) -> tuple[object, ...]:
    return () if info is None else (info.model, info.vocab_size, info.fingerprint, info.eos_token_ids, info.method)


def _score(address: str, key: bytes) -> bytes:
    return hashlib.blake2b(address.encode() + b"\0" + key, digest_size=8).digest()
