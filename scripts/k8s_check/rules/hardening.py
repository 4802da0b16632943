"""Every pod runs without root, without rights, on a root file system that it cannot write."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from scripts.k8s_check.manifests import Manifest, Pod, pods


def faults(manifests: Sequence[Manifest], root: Path) -> Iterator[str]:
    """What a pod may do that it need not."""
    for pod in pods(manifests):
        yield from (f"{pod.where}: {fault}" for fault in _pod(pod))
        for container in (*pod.init_containers, *pod.containers):
            yield from (f"{pod.where}: container {container['name']}: {fault}" for fault in _container(container))


def _pod(pod: Pod) -> Iterator[str]:
    context = pod.spec.get("securityContext") or {}
    if context.get("runAsNonRoot") is not True or not context.get("runAsUser"):
        yield "may run as root"
    if context.get("seccompProfile", {}).get("type") != "RuntimeDefault":
        yield "has no seccomp profile"
    if pod.spec.get("automountServiceAccountToken") is not False:
        yield "gets a service-account token"
    if pod.spec.get("serviceAccountName", "default") == "default":
        yield "has no service account of its own"
    for name in ("hostNetwork", "hostPID", "hostIPC"):
        if pod.spec.get(name):
            yield f"has {name}"
    for volume in pod.spec.get("volumes") or []:
        if "hostPath" in volume:
            yield f"volume {volume['name']} is the host's"


def _container(container: Manifest) -> Iterator[str]:
    context = container.get("securityContext") or {}
    if context.get("readOnlyRootFilesystem") is not True:
        yield "can write its root file system"
    if context.get("allowPrivilegeEscalation") is not False or context.get("privileged"):
        yield "may gain privileges"
    if "ALL" not in (context.get("capabilities", {}).get("drop") or []) or context.get("capabilities", {}).get("add"):
        yield "has capabilities"
    if context.get("runAsUser") == 0 or context.get("runAsNonRoot") is False:
        yield "runs as root"
    resources = container.get("resources") or {}
    for side in ("requests", "limits"):
        for name in ("cpu", "memory"):
            if name not in (resources.get(side) or {}):
                yield f"{side} no {name}"
