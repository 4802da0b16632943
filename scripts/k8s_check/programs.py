"""Containers as the programs that they start: which command, with which settings."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from forerun.cluster.plan import PoolPlan, make_plan
from forerun.errors import ConfigError
from scripts.k8s_check import code
from scripts.k8s_check.manifests import Manifest, Pod, named, pods

OURS = "forerun/"
UNKNOWN = "<secret>"  # the value of a variable that comes from a Secret


@dataclass(frozen=True)
class Program:
    """A container of ours."""

    pod: Pod
    container: Manifest
    name: str
    argv: tuple[str, ...]
    environ: Mapping[str, str]

    @property
    def where(self) -> str:
        """For a person."""
        return f"{self.pod.where}: container {self.container['name']}"

    @property
    def serves(self) -> bool:
        """Whether it is a service, in a container that stays."""
        return self.name in code.SERVICES

    def settings(self) -> Any:
        """See `code.settings`. Raises ConfigError."""
        return code.settings(self.name, self.argv, self.environ)


def image_target(image: str) -> str:
    """forerun/target:0.1.0 → target; "" for an image of others."""
    repository = image.partition("@")[0].rpartition(":")[0] or image
    return repository.removeprefix(OURS) if repository.startswith(OURS) else ""


def entrypoints(dockerfile: str) -> dict[str, list[str]]:
    """Build target → the words of its ENTRYPOINT."""
    found: dict[str, list[str]] = {}
    stage = ""
    for line in dockerfile.splitlines():
        if match := re.match(r"FROM\s+\S+\s+AS\s+(\S+)", line):
            stage = match.group(1)
        elif match := re.match(r"ENTRYPOINT\s+\[(.*)\]", line):
            found[stage] = [word.strip().strip('"') for word in match.group(1).split(",")]
    return found


def programs(manifests: Sequence[Manifest], root: Path) -> list[Program]:
    """Every container of ours whose command is one of ours; `settings.faults` tells of the others."""
    known = entrypoints((root / "Dockerfile").read_text(encoding="utf-8"))
    found = []
    for pod in pods(manifests):
        for container in (*pod.init_containers, *pod.containers):
            words = command(pod, container, known)
            name = " ".join(words[1:])
            if words[:1] == ["forerun"] and name in code.CONFIGS:
                argv = tuple(map(str, container.get("args") or []))
                found.append(Program(pod, container, name, argv, environ(container, manifests)))
    return found


def command(pod: Pod, container: Manifest, known: Mapping[str, list[str]]) -> list[str]:
    """What runs, without args: the manifest's command, else the image's; KubeRay writes that of a node's first one."""
    if pod.on_ray and container == pod.containers[0] and "command" not in container:
        return ["ray"]
    return list(container.get("command") or known.get(image_target(container["image"]), []))


def environ(container: Manifest, manifests: Sequence[Manifest]) -> dict[str, str]:
    """The variables that manifests set, `env` over `envFrom`."""
    known: dict[str, str] = {}
    for source in container.get("envFrom") or []:
        if "configMapRef" in source:
            settings = named(manifests, "ConfigMap", source["configMapRef"]["name"])
            known |= (settings or {}).get("data") or {}
    for variable in container.get("env") or []:
        known[variable["name"]] = str(variable.get("value", UNKNOWN))
    return known


def fleets(manifests: Sequence[Manifest], root: Path) -> Iterator[tuple[Program, PoolPlan]]:
    """The pools that Ray places; `settings.faults` tells of those that it would not."""
    for program in programs(manifests, root):
        if program.name == "ray up":
            try:
                yield from ((program, plan) for plan in make_plan(program.settings()))
            except ConfigError:
                continue


def services(manifests: Sequence[Manifest], root: Path) -> Iterator[tuple[Program, Any]]:
    """The services that start, with their settings; `settings.faults` tells of those that do not."""
    for program in programs(manifests, root):
        if program.serves:
            try:
                yield program, program.settings()
            except ConfigError:
                continue
