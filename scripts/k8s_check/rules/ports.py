"""Every port in a manifest is one that somebody listens on, and every address leads there."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from gateway.discovery import DNS
from gateway.page import SCHEMES
from scripts.k8s_check import code
from scripts.k8s_check.manifests import Manifest, Pod, named, of_kind, pods, title
from scripts.k8s_check.programs import Program, fleets, services
from scripts.k8s_check.selecting import selects

_ADDRESSES = ("target_addresses", "draft_addresses")


def faults(manifests: Sequence[Manifest], root: Path) -> Iterator[str]:
    """Ports that nobody listens on, and addresses that lead nowhere."""
    for program, _ in fleets(manifests, root):
        yield from _declared(program, {"registry": program.settings().registry_port})
    for program, config in services(manifests, root):
        yield from _declared(program, code.serving_ports(program.name, config))
        yield from _addresses(program, config, manifests)
    for service in of_kind(manifests, "Service"):
        yield from _service(service, manifests)
    for monitor in of_kind(manifests, "PodMonitor"):
        yield from _monitor(monitor, manifests)


def _declared(program: Program, listening: dict[str, int]) -> Iterator[str]:
    declared = {port.get("name"): port["containerPort"] for port in program.container.get("ports") or []}
    if declared != listening:
        yield f"{program.where}: declares {declared}, listens on {listening}"


def _addresses(program: Program, config: Any, manifests: Sequence[Manifest]) -> Iterator[str]:
    endpoint = program.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT", "")
    for name in _ADDRESSES if program.name == "gateway" else ():
        for address in getattr(config, name):
            if address.startswith(SCHEMES):
                yield from _leads(program, urlsplit(address).netloc, manifests)
            elif address.startswith(DNS):
                yield from _leads(program, address.removeprefix(DNS), manifests)
            else:
                yield f"{program.where}: {address} is one address, {DNS}{address} is every pod's"
    if endpoint:
        yield from _leads(program, urlsplit(endpoint).netloc, manifests)


def _leads(program: Program, address: str, manifests: Sequence[Manifest]) -> Iterator[str]:
    host, _, port = address.rpartition(":")
    service = named(manifests, "Service", host.partition(".")[0])
    if service is None:
        yield f"{program.where}: there is no Service for {address}"
    elif port not in [str(known["port"]) for known in service["spec"]["ports"]]:
        yield f"{program.where}: {title(service)} has no port {port}"


def _service(service: Manifest, manifests: Sequence[Manifest]) -> Iterator[str]:
    behind = _behind({"matchLabels": service["spec"].get("selector") or {}}, service, manifests)
    if not behind:
        yield f"{title(service)}: selects no pod"
    for port in service["spec"]["ports"]:
        wanted = port.get("targetPort", port["port"])
        for pod in behind:
            number = pod.ports().get(wanted) if isinstance(wanted, str) else wanted
            if number not in pod.ports().values():
                yield f"{title(service)}: {pod.where} has no port {wanted}"
            elif service["spec"].get("clusterIP") == "None" and number != port["port"]:
                yield f"{title(service)}: headless, so port {port['port']} must be the pods' own, {number}"


def _monitor(monitor: Manifest, manifests: Sequence[Manifest]) -> Iterator[str]:
    behind = _behind(monitor["spec"]["selector"], monitor, manifests)
    if not behind:
        yield f"{title(monitor)}: selects no pod"
    for endpoint in monitor["spec"]["podMetricsEndpoints"]:
        if endpoint.get("path") != "/metrics":
            yield f"{title(monitor)}: metrics are at /metrics, not {endpoint.get('path')}"
        for pod in behind:
            wanted = "http" if pod.component == "gateway" else "metrics"
            if endpoint.get("port") != wanted or wanted not in pod.ports():
                yield f"{title(monitor)}: {pod.where} serves metrics on port {wanted}, not {endpoint.get('port')}"


def _behind(selector: Manifest, owner: Manifest, manifests: Sequence[Manifest]) -> list[Pod]:
    namespace = owner["metadata"].get("namespace", "default")
    return [pod for pod in pods(manifests) if pod.namespace == namespace and selects(selector, pod.labels)]
