"""Requests and limits fit the models: memory, threads, whole GPUs, and the folder that the service loads is fetched."""

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from scripts.k8s_check.manifests import Manifest
from scripts.k8s_check.programs import Program, programs, services
from scripts.k8s_check.quantity import amount

GPU = "nvidia.com/gpu"
GPU_BYTES = 80e9  # the smallest Hopper
GPU_SHARE = 0.9  # of a GPU's memory; the rest is for activations, graphs and the driver
RUNTIME_BYTES = 2 << 30  # Python, torch and the compiler at start
BYTES = {
    "bf16": 2.0,
    "fp8": 1.05,
    "int8": 1.05,
    "int4": 0.7,
    "fp32": 4.0,
    "auto": 2.0,
}  # a weight, with its share of a scale


def faults(manifests: Sequence[Manifest], root: Path) -> Iterator[str]:
    """Services whose model does not fit what they ask for."""
    known = model_facts(root)
    fetched = models_fetched(manifests, root)
    for program, config in services(manifests, root):
        source = fetched.get((program.pod.where, config.model))
        if source is None:
            yield f"{program.where}: no init step fetches {config.model}"
            continue
        facts = known.get(Path(source).name)
        if facts is None:
            yield f"{program.where}: k8s/models.toml does not know {Path(source).name}"
        elif program.name != "gateway":
            for fault in _misfits(program, config, facts):
                yield f"{program.where}: {fault}"


def model_facts(root: Path) -> dict[str, dict[str, int]]:
    """What k8s/models.toml says of each model."""
    return tomllib.loads((root / "k8s" / "models.toml").read_text(encoding="utf-8"))


def models_fetched(manifests: Sequence[Manifest], root: Path) -> dict[tuple[str, str], str]:
    """(pod, folder) → the model that an init step verifies there."""
    found = {}
    for program in programs(manifests, root):
        if program.name == "fetch" and program.container in program.pod.init_containers:
            config = program.settings()
            if config.checksums:
                found[program.pod.where, config.into] = config.model
    return found


def _misfits(program: Program, config: Any, facts: Mapping[str, int]) -> Iterator[str]:
    resources = program.container.get("resources", {})
    requests, limits = resources.get("requests", {}), resources.get("limits", {})
    yield from _devices(program, config, requests, limits)
    cores = amount(limits.get("cpu", "0"))
    if not 0 < config.threads <= cores:
        yield f"{config.threads} threads on {cores:g} cores"
    if config.cache_tokens == 0:
        yield "the size of its KV cache is left to chance: set FORERUN_CACHE_TOKENS"
    loaded = 2 * facts["parameters"] * BYTES["bf16"]  # the checkpoint, and what is made of it
    on_host = RUNTIME_BYTES + loaded + (_cache_bytes(config, facts) if config.device == "cpu" else 0)
    if amount(requests.get("memory", "0")) < on_host:
        yield f"needs {on_host / 1e9:.1f} GB of memory, requests {requests.get('memory')}"
    if config.device != "cpu":
        yield from lack_of_room(config, facts, amount(limits.get(GPU, "0")))


def lack_of_room(config: Any, facts: Mapping[str, int], num_gpus: float) -> Iterator[str]:
    """Tells where weights and KV cache are more than a replica's GPUs hold together."""
    needed = facts["parameters"] * BYTES[config.precision] + _cache_bytes(config, facts)
    room = GPU_SHARE * GPU_BYTES * num_gpus
    if needed > room:
        yield f"needs {needed / 1e9:.1f} GB on GPUs, has {room / 1e9:.1f}"


def _cache_bytes(config: Any, facts: Mapping[str, int]) -> float:
    return float(config.cache_tokens * facts["cached_values"] * (1 if config.kv_cache == "fp8" else 2))


def _devices(program: Program, config: Any, requests: Mapping[str, Any], limits: Mapping[str, Any]) -> Iterator[str]:
    on_gpu = config.device != "cpu"
    if on_gpu != (GPU in limits) or requests.get(GPU) != limits.get(GPU):
        yield f"device {config.device} with {limits.get(GPU, 0)} GPUs"
    if on_gpu and (program.pod.spec.get("nodeSelector") or {}).get("nvidia.com/gpu.sharing-strategy") != "none":
        yield "may share its GPU with another pod"
