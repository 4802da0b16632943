"""What a Ray cluster's pods need of the network."""

from collections.abc import Iterator, Sequence

from scripts.k8s_check.manifests import Manifest, Pod, pods
from scripts.k8s_check.network import Edge
from scripts.k8s_check.programs import Program

WORKER = "ray-worker"
_RANGE = "net.ipv4.ip_local_port_range"


def needed(
    manifests: Sequence[Manifest], fleets: Sequence[Program], tried: Sequence[tuple[str, int]]
) -> Iterator[Edge]:
    """Its pods reach each other on every port; gateways reach the registry, and the ports that replicas take."""
    nodes = [pod for pod in pods(manifests) if pod.on_ray]
    gateways = [pod.where for pod in pods(manifests) if pod.component == "gateway"]
    numbers = sorted({port for protocol, port in tried if protocol == "TCP"})
    for node in nodes:
        yield from (Edge(node.where, other.where, "TCP", port) for other in nodes if other != node for port in numbers)
        if node.component == WORKER:
            taken = replica_ports(node)
            yield from (
                Edge(source, node.where, "TCP", port) for source in gateways for port in numbers if port in taken
            )
    for fleet in fleets:
        port = fleet.settings().registry_port
        yield from (Edge(source, fleet.pod.where, "TCP", port) for source in gateways)


def replica_ports(node: Pod) -> range:
    """Where the system gives a replica its port: any, unless the pod says less."""
    sysctls = (node.spec.get("securityContext") or {}).get("sysctls") or []
    bounds = next((found["value"] for found in sysctls if found["name"] == _RANGE), "1024 65535")
    first, last = map(int, bounds.split())
    return range(first, last + 1)
