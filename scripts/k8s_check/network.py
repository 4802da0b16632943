"""Who reaches whom under a set of NetworkPolicies, as Kubernetes defines them."""

import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from scripts.k8s_check.manifests import Manifest
from scripts.k8s_check.selecting import selects


@dataclass(frozen=True)
class Peer:
    """A pod, or, where it has no namespace, an address outside the cluster's pods."""

    name: str
    namespace: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    namespace_labels: Mapping[str, str] = field(default_factory=dict)
    ports: Mapping[str, int] = field(default_factory=dict)
    ip: str = ""


@dataclass(frozen=True, order=True)
class Edge:
    """A connection that policies let through."""

    source: str
    destination: str
    protocol: str
    port: int

    def __str__(self) -> str:
        return f"{self.source} → {self.destination} {self.protocol} {self.port}"


def outward(
    policies: Sequence[Manifest], sources: Sequence[Peer], peers: Sequence[Peer], ports: Sequence[tuple[str, int]]
) -> set[Edge]:
    """What the sources may begin, if the other end agrees. A pod that no egress policy selects may begin anything."""
    return {
        Edge(source.name, other.name, protocol, port)
        for source in sources
        for other in peers
        if source != other
        for protocol, port in ports
        if _agrees(policies, "Egress", source, other, other, protocol, port)
    }


def inward(
    policies: Sequence[Manifest], destinations: Sequence[Peer], peers: Sequence[Peer], ports: Sequence[tuple[str, int]]
) -> set[Edge]:
    """What the destinations accept, if the other end may. A pod that no ingress policy selects accepts anything."""
    return {
        Edge(other.name, destination.name, protocol, port)
        for destination in destinations
        for other in peers
        if other != destination
        for protocol, port in ports
        if _agrees(policies, "Ingress", destination, other, destination, protocol, port)
    }


def _agrees(
    policies: Sequence[Manifest], direction: str, own: Peer, other: Peer, destination: Peer, protocol: str, port: int
) -> bool:
    selecting = [policy for policy in policies if _selected(policy, own) and direction in _types(policy)]
    if not selecting:
        return True
    rules, peers = ("egress", "to") if direction == "Egress" else ("ingress", "from")
    return any(
        _peer_matches(rule.get(peers), other, policy["metadata"].get("namespace", "default"))
        and _port_matches(rule.get("ports"), destination, protocol, port)
        for policy in selecting
        for rule in policy["spec"].get(rules) or []
    )


def _selected(policy: Manifest, pod: Peer) -> bool:
    same = bool(pod.namespace) and policy["metadata"].get("namespace", "default") == pod.namespace
    return same and selects(policy["spec"].get("podSelector") or {}, pod.labels)


def _types(policy: Manifest) -> Sequence[str]:
    default = ["Ingress", "Egress"] if "egress" in policy["spec"] else ["Ingress"]
    return policy["spec"].get("policyTypes") or default


def _peer_matches(wanted: Sequence[Mapping[str, Any]] | None, other: Peer, namespace: str) -> bool:
    """No list of peers means all; within an entry namespace and pod must both fit."""
    return not wanted or any(_matches(entry, other, namespace) for entry in wanted)


def _matches(entry: Mapping[str, Any], other: Peer, namespace: str) -> bool:
    if "ipBlock" in entry:
        return bool(other.ip) and _in_block(entry["ipBlock"], other.ip)
    if not other.namespace:
        return False
    spaces = entry.get("namespaceSelector")
    right_space = other.namespace == namespace if spaces is None else selects(spaces, other.namespace_labels)
    return right_space and selects(entry.get("podSelector") or {}, other.labels)


def _in_block(block: Mapping[str, Any], ip: str) -> bool:
    address = ipaddress.ip_address(ip)
    inside = address in ipaddress.ip_network(block["cidr"])
    return inside and not any(address in ipaddress.ip_network(part) for part in block.get("except") or [])


def _port_matches(wanted: Sequence[Mapping[str, Any]] | None, destination: Peer, protocol: str, port: int) -> bool:
    """No list of ports means all; a name is looked up at the destination."""
    return not wanted or any(_is_port(entry, destination, protocol, port) for entry in wanted)


def _is_port(entry: Mapping[str, Any], destination: Peer, protocol: str, port: int) -> bool:
    if entry.get("protocol", "TCP") != protocol:
        return False
    number = entry.get("port")
    if isinstance(number, str):
        return destination.ports.get(number) == port
    return number is None or number <= port <= entry.get("endPort", number)
