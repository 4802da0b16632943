"""Every ConfigMap, claim, account and Secret that a pod names is there, or is told to be made by hand."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from scripts.k8s_check.manifests import Manifest, Pod, named, of_kind, pods, title


def faults(manifests: Sequence[Manifest], root: Path) -> Iterator[str]:
    """Names that lead nowhere: pods with them wait for ever."""
    operations = (root / "docs" / "operations.md").read_text(encoding="utf-8")
    for pod in pods(manifests):
        for kind, name in _named_by(pod):
            if kind == "Secret":
                if f"`{name}`" not in operations:
                    yield f"{pod.where}: docs/operations.md does not say how Secret {name} is made"
            elif named(manifests, kind, name) is None:
                yield f"{pod.where}: there is no {kind} {name}"
    for scaled in of_kind(manifests, "ScaledObject"):
        name = scaled["spec"]["scaleTargetRef"]["name"]
        owner = named(manifests, "Deployment", name)
        if owner is None:
            yield f"{title(scaled)}: there is no Deployment {name}"
        elif "replicas" in owner["spec"]:
            yield f"{title(scaled)}: {title(owner)} sets its replicas too"


def _named_by(pod: Pod) -> Iterator[tuple[str, str]]:
    yield "ServiceAccount", pod.spec.get("serviceAccountName", "default")
    for volume in pod.spec.get("volumes") or []:
        yield from _of_volume(volume)
        for source in volume.get("projected", {}).get("sources") or []:
            if "secret" in source:
                yield "Secret", source["secret"]["name"]
    mounted = {volume["name"] for volume in pod.spec.get("volumes") or []}
    for container in (*pod.init_containers, *pod.containers):
        for mount in container.get("volumeMounts") or []:
            if mount["name"] not in mounted:
                yield "volume", mount["name"]
        for source in container.get("envFrom") or []:
            if "configMapRef" in source:
                yield "ConfigMap", source["configMapRef"]["name"]
        for variable in container.get("env") or []:
            if secret := variable.get("valueFrom", {}).get("secretKeyRef"):
                yield "Secret", secret["name"]


def _of_volume(volume: Manifest) -> Iterator[tuple[str, str]]:
    if "configMap" in volume:
        yield "ConfigMap", volume["configMap"]["name"]
    if "secret" in volume:
        yield "Secret", volume["secret"]["secretName"]
    if "persistentVolumeClaim" in volume:
        yield "PersistentVolumeClaim", volume["persistentVolumeClaim"]["claimName"]
