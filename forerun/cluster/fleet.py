"""Both pools: started, or taken over from a supervisor that is gone; scaled; ended."""

import asyncio
import contextlib
import logging
from functools import partial
from typing import Any

from forerun.cluster.config import RayConfig
from forerun.cluster.plan import PoolPlan, make_plan
from forerun.cluster.pool import Pool
from forerun.cluster.ray_cluster import RayCluster
from forerun.cluster.replica import Found, RayReplica
from forerun.cluster.scaling import Scaler

TAKE_OVER_S = 10.0  # an actor that does not say within this what it runs is not taken over
log = logging.getLogger(__name__)


class Fleet:
    """Does nothing before `start`; `lists` is what gateways are told."""

    def __init__(self, config: RayConfig, cluster: RayCluster) -> None:
        self._config, self._cluster = config, cluster
        self._plans = make_plan(config)
        self._pools: dict[str, Pool] = {}
        self._outdated: list[RayReplica] = []

    @property
    def lists(self) -> dict[str, Any]:
        """Addresses of those that serve, for each pool."""
        return {f"{plan.name}s": self._pools[plan.name].addresses for plan in self._plans}

    @property
    def metrics(self) -> dict[str, Any]:
        """Where the /metrics of each service's replicas are."""
        return {plan.name: self._pools[plan.name].metrics_addresses for plan in self._plans}

    async def start(self) -> None:
        """Replicas that run already are in the lists afterwards; those that lack are being started."""
        for plan in self._plans:
            found = await self._found(plan)
            pool = self._pools[plan.name] = Pool(partial(self._replica, plan, found))
            size = max([plan.fewest, *(number + 1 for number in found)])
            pool.resize(min(size, plan.most))
            for surplus in found.values():
                self._cluster.remove(surplus.life)

    async def scale(self) -> None:
        """Keeps the pools' sizes to what the queues ask for, until cancelled."""
        await asyncio.gather(*(self._scale(plan, self._pools[plan.name]) for plan in self._plans))

    async def renew(self) -> None:
        """One replica after another that runs with other flags than ours drains and starts with ours."""
        while self._outdated:
            replica = self._outdated.pop()
            if replica.is_current:
                continue  # it ended meanwhile: what follows runs with ours
            log.info("replacing what serves at %s", replica.address)
            await replica.drain()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(replica.serves.wait(), self._config.start_timeout_s)

    async def drain(self) -> None:
        """Ends all of them, when their streams have."""
        await asyncio.gather(*(pool.drain() for pool in self._pools.values()))

    async def let_go(self) -> None:
        """Leaves those that serve to themselves."""
        for pool in self._pools.values():
            await pool.let_go()

    async def _found(self, plan: PoolPlan) -> dict[int, Found]:
        """By number; what does not say what it runs is ended."""
        found: dict[int, Found] = {}
        for life in self._cluster.lives(plan.name):
            try:
                leader = life.ranks[0]
                asking = asyncio.gather(
                    leader.arguments.remote(), leader.address.remote(), leader.metrics_address.remote()
                )
                arguments, address, metrics_address = await asyncio.wait_for(asking, TAKE_OVER_S)
            except Exception as error:
                log.warning("%s is not taken over: %s", life.name, error)
                self._cluster.remove(life)
                continue
            found[life.number] = Found(life, address, metrics_address, tuple(arguments) == plan.module_args)
        return found

    def _replica(self, plan: PoolPlan, found: dict[int, Found], number: int) -> RayReplica:
        config, there = self._config, found.pop(number, None)
        replica = RayReplica(self._cluster, plan, number, config.start_timeout_s, config.drain_timeout_s, there)
        if not replica.is_current:
            self._outdated.append(replica)
        return replica

    async def _scale(self, plan: PoolPlan, pool: Pool) -> None:
        config = self._config
        scaler = Scaler(plan.fewest, plan.most, config.scale_up_queue, config.scale_down_running, plan.is_held_back)
        while True:
            await asyncio.sleep(self._config.scale_every_s)
            size = scaler.look(pool.size, await pool.loads())
            if size != pool.size:
                log.info("%s replicas: %d, were %d", plan.name, size, pool.size)
                pool.resize(size)
