"""The replicas of one service: as many as wanted, each started again when it ends, with growing delays."""

import asyncio
import itertools
import logging
from collections.abc import Callable
from typing import Protocol

from forerun.cluster.load import Load

FIRST_DELAY_S, LONGEST_DELAY_S = 1.0, 60.0
STABLE_S = 300.0  # a replica that served this long is started again as if it never failed
log = logging.getLogger(__name__)


class Replica(Protocol):
    """One replica of a service, started at most once at a time."""

    address: str | None
    """Where it serves; None while it does not, and once it drains."""

    metrics_address: str | None
    """Where its /metrics are, until nothing of it is left."""

    is_draining: bool
    """Whether it was asked to end; whoever waits for `live` sees that it has."""

    async def live(self) -> str:
        """Places and starts it, or takes over what runs; returns why it ended, and then nothing of it is left."""
        ...

    async def load(self) -> Load: ...

    async def drain(self) -> None:
        """Has it end when its streams have."""
        ...


class Pool:
    """Replicas have the lowest number that is free; those that do not serve go first, then those that came last."""

    def __init__(self, new_replica: Callable[[int], Replica]) -> None:
        self._new_replica = new_replica
        self._replicas: list[Replica] = []
        self._tasks: dict[Replica, asyncio.Task[None]] = {}
        self._numbers: dict[Replica, int] = {}  # of those that drain, too

    @property
    def size(self) -> int:
        """Replicas that are wanted."""
        return len(self._replicas)

    def addresses(self) -> list[str]:
        """Of those that serve; may be called from any thread."""
        return [address for replica in list(self._replicas) if (address := replica.address)]

    def metrics_addresses(self) -> list[str]:
        """Of those that are there, also while they drain; may be called from any thread."""
        return [address for replica in list(self._numbers) if (address := replica.metrics_address)]

    def resize(self, size: int) -> None:
        """Starts replicas, or has some drain; those end by and by."""
        while len(self._replicas) < size:
            number = next(n for n in itertools.count() if n not in self._numbers.values())
            replica = self._new_replica(number)
            self._replicas.append(replica)
            self._numbers[replica] = number
            self._tasks[replica] = asyncio.create_task(self._keep(replica))
        while len(self._replicas) > size:
            _, place = max((replica.address is None, place) for place, replica in enumerate(self._replicas))
            self._end(self._replicas.pop(place))

    async def loads(self) -> list[Load | None]:
        """Of those that serve; None for one that does not answer."""
        asked = [replica.load() for replica in self._replicas if replica.address]
        answers = await asyncio.gather(*asked, return_exceptions=True)
        return [answer if isinstance(answer, Load) else None for answer in answers]

    async def drain(self) -> None:
        """Has all of them drain; returns when none is left."""
        tasks = list(self._tasks.values())
        self.resize(0)
        await asyncio.gather(*tasks, return_exceptions=True)

    async def let_go(self) -> None:
        """Watches over them no longer; those that serve go on."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _end(self, replica: Replica) -> None:
        if replica.is_draining:
            return  # by and by, as it was asked to for another reason
        if replica.address is None:
            self._tasks[replica].cancel()
        else:
            draining = asyncio.create_task(replica.drain())
            self._tasks[replica].add_done_callback(lambda _: draining.cancel())

    async def _keep(self, replica: Replica) -> None:
        delay_s, clock = FIRST_DELAY_S, asyncio.get_running_loop().time
        try:
            while replica in self._replicas:
                started = clock()
                try:
                    why = await replica.live()
                except Exception as error:  # whatever the cluster's client raises: the replica is started again
                    why = str(error)
                if replica not in self._replicas:
                    return
                delay_s = FIRST_DELAY_S if clock() - started > STABLE_S else delay_s
                log.warning("%s; starting it again in %.3g s", why, delay_s)
                await asyncio.sleep(delay_s)
                delay_s = min(2 * delay_s, LONGEST_DELAY_S)
        finally:
            del self._tasks[replica], self._numbers[replica]
