"""Every command, flag and variable in a manifest is one that the code has, with a value that it takes."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from forerun.errors import ConfigError
from gateway.config import GatewayConfig
from gateway.discovery import sources
from scripts.k8s_check import code
from scripts.k8s_check.manifests import Manifest, pods
from scripts.k8s_check.programs import Program, command, entrypoints, fleets, image_target, programs


def faults(manifests: Sequence[Manifest], root: Path) -> Iterator[str]:
    """Containers of ours that would not start as written."""
    yield from _commands(manifests, root)
    yield from _fleets(manifests, root)
    for program in programs(manifests, root):
        yield from _names(program, root)
        try:
            config = program.settings()
        except ConfigError as error:
            yield f"{program.where}: {error}"
            continue
        if program.name == "gateway":
            yield from (f"{program.where}: {fault}" for fault in _unreadable(config))
        if program.serves and config.host != "0.0.0.0":
            yield f"{program.where}: listens on {config.host}, which no other pod reaches"


def _fleets(manifests: Sequence[Manifest], root: Path) -> Iterator[str]:
    for program, plan in fleets(manifests, root):
        try:
            code.settings(plan.name, plan.module_args[1:], {})
        except ConfigError as error:
            yield f"{program.where}: {plan.name}s: {error}"


def _unreadable(config: GatewayConfig) -> Iterator[str]:
    """What the gateway refuses only once it looks for its replicas."""
    for addresses, flag in ((config.target_addresses, "--target"), (config.draft_addresses, "--draft")):
        try:
            sources(addresses, flag)
        except ConfigError as error:
            yield str(error)


def _commands(manifests: Sequence[Manifest], root: Path) -> Iterator[str]:
    known = entrypoints((root / "Dockerfile").read_text(encoding="utf-8"))
    for pod in pods(manifests):
        if pod.spec.get("enableServiceLinks") is not False:
            yield f"{pod.where}: enableServiceLinks must be false: variables of Services look like flags"
        for container in (*pod.init_containers, *pod.containers):
            words = command(pod, container, known)
            ours = words[:1] == ["forerun"] and len(words) > 1 and code.is_command(words[1])
            if image_target(container["image"]) and not ours and not (pod.on_ray and words == ["ray"]):
                yield f"{pod.where}: container {container['name']}: {' '.join(words) or 'no command'} is not ours"


def _names(program: Program, root: Path) -> Iterator[str]:
    known = code.env_names(program.name) | code.LIBRARY_ENV
    for name in sorted(program.environ.keys() - known - code.source_strings(root)):
        yield f"{program.where}: nothing reads {name}"
