"""Every probe asks for something that is served; readiness sees load and draining, liveness the heartbeat alone."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from scripts.k8s_check import code
from scripts.k8s_check.manifests import Manifest, Pod, pods
from scripts.k8s_check.programs import Program, services

PROBES = ("startupProbe", "livenessProbe", "readinessProbe")
HTTP = {"livenessProbe": "/health", "readinessProbe": "/ready"}  # the gateway's
START_S = 600  # a start may take this long: a model is loaded and compiled


def faults(manifests: Sequence[Manifest], root: Path) -> Iterator[str]:
    """Probes that are missing, lead nowhere or look at the wrong thing."""
    for pod in pods(manifests):
        for container in pod.containers:
            yield from _present(pod, container)
    for program, _ in services(manifests, root):
        for kind in PROBES:
            for fault in _fault(program, kind, program.container.get(kind) or {}, root):
                yield f"{program.where}: {kind} {fault}"


def _present(pod: Pod, container: Manifest) -> Iterator[str]:
    for kind in PROBES:
        probe = container.get(kind)
        if probe is None:
            yield f"{pod.where}: container {container['name']} has no {kind}"
            continue
        port = next((probe[how].get("port") for how in ("grpc", "httpGet", "tcpSocket") if how in probe), None)
        number = pod.ports().get(port) if isinstance(port, str) else port
        if number not in pod.ports().values():
            yield f"{pod.where}: {kind} asks port {port}, which no container has"


def _fault(program: Program, kind: str, probe: Manifest, root: Path) -> Iterator[str]:
    if program.name == "gateway" and kind in HTTP:
        yield from _http(kind, probe, root)
    else:
        yield from _grpc(program, probe)
    if kind == "startupProbe" and probe.get("periodSeconds", 10) * probe.get("failureThreshold", 3) < START_S:
        yield f"gives up before {START_S} s"


def _http(kind: str, probe: Manifest, root: Path) -> Iterator[str]:
    asked = probe.get("httpGet", {})
    path = asked.get("path")
    if path not in code.paths(root):
        yield f"asks for {path}, which the gateway does not serve"
    elif path != HTTP[kind]:
        yield f"asks for {path} instead of {HTTP[kind]}"
    if asked.get("port") != "http":
        yield f"asks port {asked.get('port')} for HTTP"
    if kind == "readinessProbe" and probe.get("timeoutSeconds", 1) <= code.ready_probe_s():
        yield f"waits {probe.get('timeoutSeconds', 1)} s, /ready may take {code.ready_probe_s():g}"


def _grpc(program: Program, probe: Manifest) -> Iterator[str]:
    asked = probe.get("grpc")
    if asked is None:
        yield "is no gRPC probe"
        return
    wanted = code.health_service(program.name)
    if asked.get("service") != wanted:
        yield f"asks for the health of {asked.get('service')!r} instead of {wanted}"
    with_tls = "health" in program.pod.ports()
    port = program.pod.ports().get("health" if with_tls else "grpc")
    if asked.get("port") != port:
        yield f"asks port {asked.get('port')} instead of {port}"
