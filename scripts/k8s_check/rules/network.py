"""NetworkPolicies let exactly the needed edges through: reachability is computed and compared, both ways."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from forerun.models import resolve
from scripts.k8s_check import code
from scripts.k8s_check.manifests import Manifest, of_kind, pods
from scripts.k8s_check.network import Edge, Peer, inward, outward
from scripts.k8s_check.programs import programs, services
from scripts.k8s_check.rules import ray_edges

NAMESPACE = "forerun"
DNS, HTTPS, OTLP, TELEMETRY = 53, 443, 4317, 8888
_NAME = "kubernetes.io/metadata.name"
# Who else there is: those that have business here, and strangers of every kind.
PROMETHEUS = Peer("prometheus", "monitoring", {"app.kubernetes.io/name": "prometheus"}, {_NAME: "monitoring"})
TRACES = Peer("traces", "monitoring", {"app.kubernetes.io/name": "tempo"}, {_NAME: "monitoring"})
NAMES = Peer("names", "kube-system", {"k8s-app": "kube-dns"}, {_NAME: "kube-system"})
CLIENT = Peer("client", "shop", {"app": "shop"}, {_NAME: "shop", "forerun/clients": "true"})
MODEL_SOURCE = Peer("model source", ip="203.0.113.10")
BESIDE = Peer("stranger in the namespace", NAMESPACE, {"app": "stranger"}, {_NAME: NAMESPACE})
STRANGERS = (
    Peer("stranger elsewhere", "elsewhere", {"app.kubernetes.io/component": "gateway"}, {_NAME: "elsewhere"}),
    Peer("stranger in monitoring", "monitoring", {"app": "stranger"}, {_NAME: "monitoring"}),
    Peer("stranger in kube-system", "kube-system", {"app": "stranger"}, {_NAME: "kube-system"}),
    Peer("metadata service", ip="169.254.169.254"),
    Peer("private network", ip="10.96.0.1"),
    Peer("other private network", ip="172.16.0.1"),
    Peer("home network", ip="192.168.0.1"),
)
OTHERS = (PROMETHEUS, TRACES, NAMES, CLIENT, MODEL_SOURCE, *STRANGERS)
_ALWAYS_TRIED = (1, 22, 80, DNS, HTTPS, 6443, OTLP, TELEMETRY, 10250, 65535)


def faults(manifests: Sequence[Manifest], root: Path) -> Iterator[str]:
    """Edges that are open and needed by nobody, and needed ones that are closed; each end is looked at by itself."""
    ours, policies = _ours(manifests), of_kind(manifests, "NetworkPolicy")
    names, peers, tried = {peer.name for peer in ours}, (*ours, *OTHERS), _tried(ours, policies)
    wanted = needed(manifests, root, tried)
    out = outward(policies, ours, peers, tried)
    into = inward(policies, ours, peers, tried)
    yield from _compared("out of its source", out, {edge for edge in wanted if edge.source in names})
    yield from _compared("into its destination", into, {edge for edge in wanted if edge.destination in names})


def _compared(side: str, found: set[Edge], wanted: set[Edge]) -> Iterator[str]:
    yield from (f"open {side}, and needed by nobody: {edge}" for edge in sorted(found - wanted))
    yield from (f"needed, and closed {side}: {edge}" for edge in sorted(wanted - found))


def _tried(ours: Sequence[Peer], policies: Sequence[Manifest]) -> list[tuple[str, int]]:
    numbers = {port for peer in ours for port in peer.ports.values()} | set(_ALWAYS_TRIED) | _named(policies)
    return [(protocol, port) for protocol in ("TCP", "UDP") for port in sorted(numbers)]


def needed(manifests: Sequence[Manifest], root: Path, tried: Sequence[tuple[str, int]]) -> set[Edge]:
    """What the services do: read off their settings."""
    wanted = {Edge(peer.name, NAMES.name, protocol, DNS) for peer in _ours(manifests) for protocol in ("TCP", "UDP")}
    for program, config in services(manifests, root):
        wanted |= _of_service(program.pod.where, program.name, code.serving_ports(program.name, config), manifests)
    for program in programs(manifests, root):
        if program.name == "fetch" and resolve.is_hub_id(program.settings().model):
            wanted.add(Edge(program.pod.where, MODEL_SOURCE.name, "TCP", HTTPS))
    fleets = [program for program in programs(manifests, root) if program.name == "ray up"]
    wanted |= set(ray_edges.needed(manifests, fleets, tried))
    for collector in _of_component(manifests, "collector"):
        wanted |= {
            Edge(collector, TRACES.name, "TCP", OTLP),
            Edge(PROMETHEUS.name, collector, "TCP", TELEMETRY),
        }
        wanted |= {Edge(pod.where, collector, "TCP", OTLP) for pod in pods(manifests) if pod.on_ray}
    return wanted


def _of_service(where: str, name: str, ports: dict[str, int], manifests: Sequence[Manifest]) -> set[Edge]:
    wanted = {Edge(where, collector, "TCP", OTLP) for collector in _of_component(manifests, "collector")}
    wanted.add(Edge(PROMETHEUS.name, where, "TCP", ports["http" if name == "gateway" else "metrics"]))
    callers = [CLIENT.name] if name == "gateway" else _of_component(manifests, "gateway")
    faces = ("http", "grpc") if name == "gateway" else ("grpc",)
    return wanted | {Edge(caller, where, "TCP", ports[face]) for caller in callers for face in faces}


def _ours(manifests: Sequence[Manifest]) -> list[Peer]:
    """Our pods, and one that somebody starts beside them: what no policy selects by name is to be locked in too."""
    known = [Peer(pod.where, pod.namespace, pod.labels, {_NAME: pod.namespace}, pod.ports()) for pod in pods(manifests)]
    return [*known, BESIDE]


def _of_component(manifests: Sequence[Manifest], component: str) -> list[str]:
    return [pod.where for pod in pods(manifests) if pod.component == component]


def _named(policies: Sequence[Manifest]) -> set[int]:
    rules = [rule for policy in policies for side in ("ingress", "egress") for rule in policy["spec"].get(side) or []]
    entries = [entry for rule in rules for entry in rule.get("ports") or []]
    numbers = {entry.get("port") for entry in entries} | {entry.get("endPort") for entry in entries}
    return {number for number in numbers if isinstance(number, int)}
