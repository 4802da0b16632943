"""The replicas of one service: who is there, who is healthy, and which of them a new sequence goes to."""

import asyncio
import itertools
import logging
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Generic, TypeVar

from forerun.errors import ConfigError, ForerunError, ServiceUnavailable
from forerun.rpc.clients import UNARY_TIMEOUT_S, Peer
from forerun.types import ServiceInfo
from gateway.balance import choose
from gateway.replica import Replica

C = TypeVar("C", bound=Peer)
Check = Callable[[Peer, ServiceInfo], Awaitable[None]]

PROBE_S = 1.0  # between looks at an unhealthy replica; a healthy one is looked at every tenth time
LOOK_S = 2.0  # a replica under suspicion has so long to answer, and an answer clears it for so long
_log = logging.getLogger("forerun.replicas")


class Replicas(Generic[C]):
    """Replicas come and go; each is probed until it goes. `check` raises ConfigError for one that may never be used.

    `suspicion` is set whenever one fails, for those who know where replicas are to be found.
    """

    def __init__(self, clients: Sequence[C], check: Check) -> None:
        self.all = [Replica(client) for client in clients]
        self.suspicion = asyncio.Event()
        self.trouble = ""  # with finding replicas at all
        self._check, self._started = check, False
        self._tasks: dict[Replica[C], asyncio.Task[None]] = {}

    async def start(self) -> None:
        """Looks at every replica once, then goes on looking in the background. Raises ConfigError for a misfit."""
        await asyncio.gather(*(self.probe(replica) for replica in self.all))
        self._started = True
        self._tasks = {replica: asyncio.create_task(self._keep_probing(replica)) for replica in self.all}

    def add(self, client: C) -> None:
        """One more replica, used as soon as it was found well."""
        replica = Replica(client)
        self.all.append(replica)
        if self._started:
            self._tasks[replica] = asyncio.create_task(self._begin_probing(replica))

    def remove(self, address: str) -> None:
        """Takes the replica at `address` out for new sequences; those that run there go on, then it is closed."""
        for replica in [replica for replica in self.all if replica.address == address]:
            self.all.remove(replica)
            if task := self._tasks.pop(replica, None):
                task.cancel()
            self._tasks[replica] = asyncio.create_task(self._retire(replica))

    async def close(self) -> None:
        """Stops probing and closes the connections."""
        replicas = {*self.all, *self._tasks}
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*(replica.client.close() for replica in replicas))

    def pick(self, key: bytes, excluded: Collection[Replica[C]] = ()) -> Replica[C] | None:
        """The healthy replica for a new sequence whose prompt is known by `key`; None where there is none."""
        usable = [replica for replica in self.all if replica.healthy and replica not in excluded]
        trusted = [replica for replica in usable if replica.suspended_until <= self._now()]
        return choose(key, trusted or usable)

    def failed(self, replica: Replica[C], error: ForerunError) -> None:
        """Takes `replica` out until a probe finds it well again."""
        if replica.healthy:
            _log.warning("%s is out: %s", replica.client.name, error)
            replica.failed(self._now())
            self.suspicion.set()

    def draining(self, replica: Replica[C]) -> None:
        """Takes `replica` out, which ends on purpose; it is used again when a probe finds it back."""
        if replica.healthy:
            _log.info("%s drains", replica.client.name)
            replica.healthy = False
            self.suspicion.set()

    async def still_answers(self, replica: Replica[C]) -> bool:
        """Whether a replica that fell silent may be waited for; one that does not answer within LOOK_S is out.

        Sequences that notice together share one look.
        """
        async with replica.looking:
            if replica.healthy and self._now() - replica.answered_at > LOOK_S:
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
        replica.answered_at = self._now()
        replica.load.saw_info(info.num_running + info.num_waiting, replica.num_sequences, replica.answered_at)

    async def _begin_probing(self, replica: Replica[C]) -> None:
        await self._probe_late(replica)
        await self._keep_probing(replica)

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

    async def _retire(self, replica: Replica[C]) -> None:
        await replica.idle.wait()
        await replica.client.close()
        self._tasks.pop(replica, None)

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()


async def wait_for_one(replicas: "Replicas[C]", service: str) -> Replica[C]:
    """Returns when a replica is healthy; says what is missing meanwhile. Raises ConfigError for a misfit."""
    said = None
    while True:
        for replica in replicas.all:
            if replica.healthy:
                return replica
        complaints = _complaints(replicas)
        if complaints != said:
            _log.warning("waiting for a %s: %s", service, complaints)
            said = complaints
        await asyncio.sleep(PROBE_S / 4)
        await asyncio.gather(*(replicas.probe(replica) for replica in replicas.all))


def no_replica(service: str, replicas: "Replicas[C]") -> ServiceUnavailable:
    """The error for having nobody to ask."""
    complaints = _complaints(replicas) or "all failed just now"
    return ServiceUnavailable(f"no {service} replica answers ({complaints}); try again later")


def _complaints(replicas: "Replicas[C]") -> str:
    return "; ".join(filter(None, (replicas.trouble, *(replica.complaint for replica in replicas.all))))


def _identity(info: ServiceInfo | None) -> tuple[object, ...]:
    """What a check looks at, and what tells one model from another."""
    if info is None:
        return ()
    return (info.model, info.vocab_size, info.fingerprint, info.eos_token_ids, info.method, info.max_model_len)
