"""Every path in a container's settings is in its image or on a volume that it mounts, and may write where it writes."""

from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

from scripts.k8s_check.manifests import Manifest, named, pods
from scripts.k8s_check.programs import Program, fleets, programs
from scripts.k8s_check.rules import ray_edges

BAKED = "/opt/models"  # the bundled models, in the images of draft and target
WRITTEN = ("HOME", "FORERUN_CACHE", "--into")
SCRATCH = "/tmp"  # libraries write there whatever they are told


def faults(manifests: Sequence[Manifest], root: Path) -> Iterator[str]:
    """Paths that lead nowhere, or that are read-only and must not be."""
    yield from _on_nodes(manifests, root)
    for program in programs(manifests, root):
        mounts = {mount["mountPath"]: mount for mount in program.container.get("volumeMounts") or []}
        if "HOME" not in program.environ:
            yield f"{program.where}: HOME is not set, and libraries keep caches there"
        for name, path in (*_paths(program), ("temporary files", SCRATCH)):
            mount = next((found for at, found in mounts.items() if PurePosixPath(path).is_relative_to(at)), None)
            if mount is None and not path.startswith(BAKED):
                yield f"{program.where}: {name}: {path} is on no volume"
            elif mount is not None and mount.get("readOnly") and name in WRITTEN:
                yield f"{program.where}: {name}: {path} cannot be written"
            elif mount is not None:
                yield from _in_config(program, path, mount, manifests)


def _on_nodes(manifests: Sequence[Manifest], root: Path) -> Iterator[str]:
    """What Ray starts finds its files on every node that has none of the fleet's own."""
    nodes = [pod for pod in pods(manifests) if pod.on_ray and pod.component == ray_edges.WORKER]
    for program, plan in fleets(manifests, root):
        wanted = [word for word in plan.module_args if word.startswith("/")]
        for pod in nodes:
            mounts = [mount["mountPath"] for found in pod.containers for mount in found.get("volumeMounts") or []]
            for path in wanted:
                if not any(PurePosixPath(path).is_relative_to(at) for at in mounts):
                    yield f"{program.where}: {plan.name}s: {path} is on no volume of {pod.where}"


def _paths(program: Program) -> Iterator[tuple[str, str]]:
    before = ("", *program.argv)
    yield from ((name, value) for name, value in zip(before, program.argv, strict=False) if value.startswith("/"))
    yield from ((name, value) for name, value in program.environ.items() if value.startswith("/"))


def _in_config(program: Program, path: str, mount: Manifest, manifests: Sequence[Manifest]) -> Iterator[str]:
    """A file of a mounted ConfigMap must be one of its keys."""
    volumes = program.pod.spec.get("volumes") or []
    volume: Manifest = next((found for found in volumes if found["name"] == mount["name"]), {})
    config = named(manifests, "ConfigMap", volume.get("configMap", {}).get("name", ""))
    if config is not None and PurePosixPath(path).name not in config["data"]:
        yield f"{program.where}: ConfigMap {config['metadata']['name']} has no {PurePosixPath(path).name}"
