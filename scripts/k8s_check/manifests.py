"""Rendered manifests and what is looked up in them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

Manifest = dict[str, Any]

COMPONENT = "app.kubernetes.io/component"
_POD_PATHS = {
    "Deployment": (("spec", "template"),),
    "Job": (("spec", "template"),),
    "RayCluster": (("spec", "headGroupSpec", "template"),),
}


@dataclass(frozen=True)
class Pod:
    """A pod template, where it stands, and how many of it there are to be at first."""

    where: str
    namespace: str
    labels: dict[str, str]
    spec: Manifest
    replicas: int

    @property
    def component(self) -> str:
        """Which part of Forerun it is; "" for none."""
        return self.labels.get(COMPONENT, "")

    @property
    def containers(self) -> list[Manifest]:
        """Those that serve."""
        return list(self.spec.get("containers") or [])

    @property
    def init_containers(self) -> list[Manifest]:
        """Those that run before."""
        return list(self.spec.get("initContainers") or [])

    @property
    def on_ray(self) -> bool:
        """Whether it is a node of a Ray cluster."""
        return self.where.startswith("RayCluster/")

    def ports(self) -> dict[str, int]:
        """Number of every named container port."""
        declared = [port for container in self.containers for port in container.get("ports") or []]
        return {port.get("name", str(port["containerPort"])): port["containerPort"] for port in declared}


def title(manifest: Manifest) -> str:
    """Kind/name, as kubectl writes it."""
    return f"{manifest.get('kind')}/{manifest.get('metadata', {}).get('name')}"


def of_kind(manifests: Sequence[Manifest], kind: str) -> list[Manifest]:
    """Every manifest of that kind."""
    return [manifest for manifest in manifests if manifest.get("kind") == kind]


def named(manifests: Sequence[Manifest], kind: str, name: str) -> Manifest | None:
    """The manifest of that kind and name."""
    return next((found for found in of_kind(manifests, kind) if found["metadata"]["name"] == name), None)


def pods(manifests: Sequence[Manifest]) -> list[Pod]:
    """Every pod template of a rendering."""
    return [pod for manifest in manifests for pod in _pods_of(manifest)]


def _pods_of(manifest: Manifest) -> Iterator[Pod]:
    for path in _POD_PATHS.get(manifest.get("kind", ""), ()):
        owner = manifest
        for part in path:
            owner = owner[part]
        yield _pod(title(manifest), manifest, owner, manifest["spec"].get("replicas", 1))
    if manifest.get("kind") == "RayCluster":
        for group in manifest["spec"].get("workerGroupSpecs") or []:
            where = f"{title(manifest)}/{group['groupName']}"
            yield _pod(where, manifest, group["template"], group.get("replicas", 1))


def _pod(where: str, manifest: Manifest, template: Manifest, replicas: int) -> Pod:
    labels = template.get("metadata", {}).get("labels") or {}
    return Pod(where, manifest["metadata"].get("namespace", "default"), labels, template["spec"], replicas)
