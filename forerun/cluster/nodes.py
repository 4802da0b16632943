"""Which node a replica goes to: away from the other service, then away from its own kind, where there is room."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Node:
    """A node of the cluster: what is free of it, and the services of the replicas there, one entry each."""

    id: str
    free: Mapping[str, float]
    residents: Sequence[str] = ()


def choose(nodes: Sequence[Node], service: str, bundle: Mapping[str, float], num_ranks: int) -> str | None:
    """The node for all ranks of a replica; None where none has room for all, and they have to be packed onto several.

    Draft and target compete for a node's cores and memory bandwidth even on different GPUs, so they are kept apart
    first; replicas of one service are spread next, so that a node's death takes few of them.
    """
    roomy = [node for node in nodes if _has_room(node, bundle, num_ranks)]
    best = min(roomy, key=lambda node: _crowd(node, service), default=None)
    return best.id if best else None


def _has_room(node: Node, bundle: Mapping[str, float], num_ranks: int) -> bool:
    return all(node.free.get(kind, 0.0) >= need * num_ranks for kind, need in bundle.items())


def _crowd(node: Node, service: str) -> tuple[int, int, float]:
    others = sum(resident != service for resident in node.residents)
    return others, len(node.residents) - others, -node.free.get("CPU", 0.0)
