"""A replica on Ray: a placement group, an actor for each rank, and the address where rank 0 serves."""

import asyncio
import contextlib
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from forerun.cluster.load import Load
from forerun.cluster.plan import PoolPlan
from forerun.cluster.ray_cluster import Life, RayCluster
from forerun.errors import ServiceUnavailable

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Found:
    """A life that is to be taken over, and where it serves. is_current: with the flags that it would be given now."""

    life: Life
    address: str
    metrics_address: str
    is_current: bool


class RayReplica:
    """See pool.Replica. Its first life may be one that was found. `serves` is set while it has an address.

    is_current: False while that life goes on, if it was found with other flags than it would be given now.
    """

    def __init__(
        self,
        cluster: RayCluster,
        plan: PoolPlan,
        number: int,
        start_timeout_s: float,
        drain_timeout_s: float,
        found: Found | None = None,
    ) -> None:
        self._cluster, self._plan, self._number = cluster, plan, number
        self._start_timeout_s, self._drain_timeout_s = start_timeout_s, drain_timeout_s
        self._life: Life | None = found.life if found else None
        self.address: str | None = None
        self.metrics_address: str | None = found.metrics_address if found else None
        self.is_draining, self.is_current = False, found is None or found.is_current
        self.serves = asyncio.Event()
        if found:
            self._listed(found.address)

    async def live(self) -> str:
        """Cancelled while it starts, nothing is left of it; cancelled while it serves or drains, it goes on."""
        try:
            if self._life is None:
                self._life = await self._cluster.place(self._plan, self._number, self._start_timeout_s)
                self._listed(await self._start(self._life))
            log.info("%s-%d serves at %s", self._plan.name, self._number, self.address)
            why = await _first_end(self._life.ranks)
        except asyncio.CancelledError:
            if self.address is None and not self.is_draining:
                self._clear()
            raise
        except Exception as error:
            self._clear()
            raise ServiceUnavailable(f"{self._plan.name}-{self._number}: {error}") from error
        self._clear()
        return why

    async def load(self) -> Load:
        """Of rank 0, which has the queue."""
        load: Load = await self._leader.load.remote()
        return load

    async def drain(self) -> None:
        """Takes it off the list, so that nothing new comes, and has it end; does nothing where it is not placed."""
        from ray.exceptions import RayError

        if self._life is None:
            return
        self.is_draining = True
        self._listed(None)
        with contextlib.suppress(RayError):  # it is gone already
            await self._leader.stop.remote(self._drain_timeout_s)

    def _listed(self, address: str | None) -> None:
        self.address = address
        (self.serves.set if address else self.serves.clear)()

    @property
    def _leader(self) -> Any:
        if self._life is None:
            raise ServiceUnavailable(f"{self._plan.name}-{self._number} is not placed")
        return self._life.ranks[0]

    async def _start(self, life: Life) -> str:
        """Starts every rank; the address, once rank 0 serves there."""
        host, port = await life.ranks[0].meeting.remote()
        shared = {"WORLD_SIZE": str(len(life.ranks)), "MASTER_ADDR": host, "MASTER_PORT": str(port)}
        # Ray shows each rank its own GPUs alone.
        places = [{**shared, "RANK": str(rank), "LOCAL_RANK": "0"} for rank in range(len(life.ranks))]
        starting = [
            actor.start.remote(self._plan.module_args, place) for actor, place in zip(life.ranks, places, strict=True)
        ]
        await asyncio.gather(*starting)
        await self._until_serving(life)
        self.metrics_address = await life.ranks[0].metrics_address.remote()
        address: str = await life.ranks[0].address.remote()
        return address

    async def _until_serving(self, life: Life) -> None:
        serving = asyncio.ensure_future(_awaited(life.ranks[0].serving.remote()))
        ending = asyncio.ensure_future(_first_end(life.ranks))
        try:
            both = {serving, ending}
            await asyncio.wait(both, timeout=self._start_timeout_s, return_when=asyncio.FIRST_COMPLETED)
            if ending.done():
                raise ServiceUnavailable(ending.result())
            if not serving.done():
                raise ServiceUnavailable(f"did not serve within {self._start_timeout_s:.0f} s")
            serving.result()
        finally:
            serving.cancel()
            ending.cancel()

    def _clear(self) -> None:
        life, self._life = self._life, None
        self.metrics_address, self.is_draining, self.is_current = None, False, True
        self._listed(None)
        if life is not None:
            self._cluster.remove(life)


async def _first_end(ranks: Sequence[Any]) -> str:
    """What the first rank to end said, or that its actor is gone."""
    ends = [asyncio.ensure_future(_end(actor)) for actor in ranks]
    try:
        done, _ = await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        return done.pop().result()
    finally:
        for end in ends:
            end.cancel()


async def _end(actor: Any) -> str:
    from ray.exceptions import RayError

    try:
        return str(await actor.ended.remote())
    except RayError as error:
        return f"its actor is gone: {str(error).splitlines()[0]}"


async def _awaited(reference: Any) -> Any:
    return await reference
