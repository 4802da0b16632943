"""What is asked of Ray, and nothing else is: where room is, placement groups, and actors with names.

Actors and groups are detached: they outlive the process that placed them, and are found again by their names,
forerun-SERVICE-NUMBER-LIFE and the same with -RANK behind it.
"""

import asyncio
import contextlib
import os
import secrets
from dataclasses import dataclass
from typing import Any

from forerun.cluster.config import ClusterConfig
from forerun.cluster.nodes import Node, choose
from forerun.cluster.plan import PoolPlan
from forerun.cluster.rank import Rank
from forerun.errors import ConfigError, ServiceUnavailable

CHOSEN_S = 10.0
"""A node that had room is given so long: somebody else may have been faster."""

_LOOK_S = 1
"""Who waits for room looks up this often: an event loop that ends waits for the thread in which Ray waits."""

_OBJECT_STORE = 80 * 2**20  # nothing is kept there


@dataclass(frozen=True, slots=True)
class Life:
    """A replica as it was placed once: its actors in the order of ranks, and its placement group's name."""

    name: str
    number: int
    ranks: tuple[Any, ...]


class RayCluster:
    """A connection to a cluster, in a namespace."""

    def __init__(self, ray: Any, namespace: str) -> None:
        self._ray, self._namespace = ray, namespace
        self._placing = asyncio.Lock()

    async def place(self, plan: PoolPlan, number: int, timeout_s: float) -> Life:
        """Actors for all ranks of a replica, on one node where one has room.

        Raises ServiceUnavailable where there is no room for them within timeout_s.
        """
        name = f"forerun-{plan.name}-{number}-{secrets.token_hex(3)}"
        group = await self._placed(name, plan, timeout_s)
        try:
            return Life(name, number, tuple(self._actors(name, plan, number, group)))
        except Exception:
            self._remove_group(name)
            raise

    def _actors(self, name: str, plan: PoolPlan, number: int, group: Any) -> list[Any]:
        strategy = self._ray.util.scheduling_strategies.PlacementGroupSchedulingStrategy
        return [
            self._ray.remote(Rank)
            .options(
                name=f"{name}-{rank}",
                namespace=self._namespace,
                lifetime="detached",
                num_cpus=plan.cpus,
                num_gpus=plan.gpus,
                scheduling_strategy=strategy(group, rank),
            )
            .remote(f"{plan.name}-{number}-{rank}")
            for rank in range(plan.num_ranks)
        ]

    def lives(self, service: str) -> list[Life]:
        """Those of a service that are there, whoever placed them."""
        found: dict[str, dict[int, Any]] = {}
        for name in self._ray.util.list_named_actors():
            life, _, rank = name.rpartition("-")
            if life.startswith(f"forerun-{service}-") and rank.isdecimal():
                found.setdefault(life, {})[int(rank)] = self._ray.get_actor(name)
        in_order = {life: tuple(ranks[rank] for rank in sorted(ranks)) for life, ranks in found.items()}
        return [Life(life, int(life.split("-")[2]), ranks) for life, ranks in in_order.items()]

    def remove(self, life: Life) -> None:
        """Nothing of it is left: the actors are killed, and their processes with them."""
        for actor in life.ranks:
            self._ray.kill(actor)
        self._remove_group(life.name)

    def remove_groups(self) -> None:
        """None of a fleet's placement groups is left: those that still wait for room have no actor to be found by."""
        for group in list(self._ray.util.placement_group_table().values()):
            if group["name"].startswith("forerun-"):
                self._remove_group(group["name"])

    def _remove_group(self, name: str) -> None:
        with contextlib.suppress(ValueError):  # it is gone, or of another namespace
            self._ray.util.remove_placement_group(self._ray.util.get_placement_group(name))

    async def _placed(self, name: str, plan: PoolPlan, timeout_s: float) -> Any:
        async with self._placing:
            node = choose(self._nodes(), plan.name, plan.bundle, plan.num_ranks)
            if node is not None:
                group = await self._with_room(name, plan, {"ray.io/node-id": node}, min(CHOSEN_S, timeout_s))
                if group is not None:
                    return group
        # No node has room for all ranks now: on as few as possible, or on one that the autoscaler brings.
        group = await self._with_room(name, plan, {}, timeout_s)
        if group is None:
            raise ServiceUnavailable(f"no room for {plan.num_ranks} x {plan.bundle} in {timeout_s:.0f} s")
        return group

    async def _with_room(self, name: str, plan: PoolPlan, labels: dict[str, str], timeout_s: float) -> Any:
        """A new group once it has its room; None where it has none within timeout_s.

        Nothing of it is left then, nor where this is cancelled.
        """
        group = self._group(name, plan, labels)
        clock, has_room = asyncio.get_running_loop().time, False
        deadline = clock() + timeout_s
        try:
            while not has_room and clock() < deadline:
                has_room = await asyncio.to_thread(group.wait, _LOOK_S)
        finally:
            if not has_room:
                self._ray.util.remove_placement_group(group)
        return group if has_room else None

    def _group(self, name: str, plan: PoolPlan, labels: dict[str, str]) -> Any:
        bundles = [plan.bundle] * plan.num_ranks
        selector = [labels] * plan.num_ranks if labels else None
        make = self._ray.util.placement_group
        return make(bundles, strategy="PACK", name=name, lifetime="detached", bundle_label_selector=selector)

    def _nodes(self) -> list[Node]:
        from ray._private.state import available_resources_per_node  # there is no public one

        ask: Any = available_resources_per_node
        free, residents = ask(), self._residents()
        alive = [str(node["NodeID"]) for node in self._ray.nodes() if node["Alive"]]
        return [Node(node, free.get(node, {}), residents.get(node, ())) for node in alive]

    def _residents(self) -> dict[str, list[str]]:
        """Services of the replicas on each node, by their placement groups."""
        there: dict[str, list[str]] = {}
        for group in self._ray.util.placement_group_table().values():
            if group["state"] == "CREATED" and group["name"].startswith("forerun-"):
                for node in set(group["bundles_to_node_id"].values()):
                    there.setdefault(node, []).append(group["name"].split("-")[1])
        return there


def connect(config: ClusterConfig) -> RayCluster:
    """Raises ConfigError where Ray is not installed or no cluster answers at --address."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
        import ray.util.scheduling_strategies
    except ImportError as error:
        raise ConfigError(f"forerun ray needs Ray: pip install 'forerun[ray]' ({error})") from error
    ours: dict[str, Any] = {"include_dashboard": False, "object_store_memory": _OBJECT_STORE}
    options = ours if config.address == "local" else {}
    try:
        ray.init(config.address, namespace=config.namespace, log_to_driver=False, **options)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise ConfigError(f"no Ray cluster at --address {config.address}: {error}") from error
    return RayCluster(ray, config.namespace)
