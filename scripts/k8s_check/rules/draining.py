"""A pod that goes drops no stream: rounds end before SIGTERM, streams before SIGKILL, and never all pods at once."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from scripts.k8s_check.manifests import Manifest, of_kind, pods, title
from scripts.k8s_check.programs import Program, services
from scripts.k8s_check.selecting import selects

SPARE_S = 5  # after the grace period: the last spans leave, the process ends


def faults(manifests: Sequence[Manifest], root: Path) -> Iterator[str]:
    """Pods that end too early, and rollouts or evictions that take too many."""
    known = list(services(manifests, root))
    longest_round_s = max(
        (config.target_timeout_s for program, config in known if program.name == "gateway"), default=0
    )
    for program, config in known:
        yield from _end(program, config, longest_round_s)
        yield from _budget(program, manifests)
        yield from _spread(program)
    for deployment in of_kind(manifests, "Deployment"):
        yield from _rollout(deployment)


def _end(program: Program, config: Any, longest_round_s: float) -> Iterator[str]:
    pause_s = program.container.get("lifecycle", {}).get("preStop", {}).get("sleep", {}).get("seconds", 0)
    if pause_s <= longest_round_s:
        yield f"{program.where}: preStop takes {pause_s} s, a round up to {longest_round_s:g}"
    needed_s = pause_s + config.grace_s + SPARE_S
    given_s = program.pod.spec.get("terminationGracePeriodSeconds", 30)
    if given_s < needed_s:
        yield f"{program.where}: is killed after {given_s} s, needs {needed_s:g} to drain"


def _budget(program: Program, manifests: Sequence[Manifest]) -> Iterator[str]:
    pod = program.pod
    found = [
        budget
        for budget in of_kind(manifests, "PodDisruptionBudget")
        if budget["metadata"].get("namespace", "default") == pod.namespace
        and selects(budget["spec"]["selector"], pod.labels)
    ]
    if len(found) != 1:
        yield f"{pod.where}: {len(found)} PodDisruptionBudgets select it, not one"
    for budget in found:
        others = [other.where for other in pods(manifests) if selects(budget["spec"]["selector"], other.labels)]
        if others != [pod.where]:
            yield f"{title(budget)}: selects {', '.join(others)}"
        if budget["spec"].get("maxUnavailable") != 1:
            yield f"{title(budget)}: one pod at a time may go, not {budget['spec'].get('maxUnavailable')}"


def _spread(program: Program) -> Iterator[str]:
    constraints = program.pod.spec.get("topologySpreadConstraints") or []
    for key in ("kubernetes.io/hostname", "topology.kubernetes.io/zone"):
        found = [constraint for constraint in constraints if constraint["topologyKey"] == key]
        if not any(selects(constraint["labelSelector"], program.pod.labels) for constraint in found):
            yield f"{program.where}: is not spread over {key}"


def _rollout(deployment: Manifest) -> Iterator[str]:
    rolling = deployment["spec"].get("strategy", {}).get("rollingUpdate", {})
    replicas = deployment["spec"].get("replicas", 2)  # absent where an autoscaler owns it
    gone, name = rolling.get("maxUnavailable", 1), deployment["metadata"]["name"]
    if name in ("gateway", "target") and not (isinstance(gone, int) and gone < replicas):
        yield f"{title(deployment)}: a rollout may take {gone} of {replicas} replicas"
