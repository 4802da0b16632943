"""Every image of ours is a target of the Dockerfile at this version; every other is pinned."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import forerun
from scripts.k8s_check.manifests import Manifest, pods
from scripts.k8s_check.programs import entrypoints, image_target


def faults(manifests: Sequence[Manifest], root: Path) -> Iterator[str]:
    """Images that cannot be built or that may change by themselves."""
    targets = entrypoints((root / "Dockerfile").read_text(encoding="utf-8"))
    for pod in pods(manifests):
        for container in (*pod.init_containers, *pod.containers):
            told = _fault(container["image"], sorted(targets))
            if told:
                yield f"{pod.where}: image {container['image']} {told}"


def _fault(image: str, targets: Sequence[str]) -> str:
    tag = image.rpartition(":")[2] if ":" in image.rpartition("/")[2] else ""
    target = image_target(image)
    if target and target not in targets:
        return f"is no target of the Dockerfile, which has {', '.join(targets)}"
    if target and not re.fullmatch(re.escape(forerun.__version__) + r"(-[a-z]+)*", tag):
        return f"is not of version {forerun.__version__}"
    if not target and not re.match(r"v?\d+\.\d+", tag) and "@sha256:" not in image:
        return "is not pinned to a version"
    return ""
