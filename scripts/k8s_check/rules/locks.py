"""Keys and certificates come from Secrets alone, none is in a manifest, and both ends of a connection agree on TLS."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from scripts.k8s_check import code
from scripts.k8s_check.manifests import Manifest, of_kind, title
from scripts.k8s_check.programs import UNKNOWN, Program, fleets, programs, services

_SECRET_FILES = ("tls_cert", "tls_key", "tls_ca", "public_tls_cert", "public_tls_key", "api_keys_file")
_SECRET_NAMES = re.compile(r"(TOKEN|PASSWORD|SECRET)$")


def faults(manifests: Sequence[Manifest], root: Path) -> Iterator[str]:
    """Secrets that are no secrets, and pairs that could not speak to each other."""
    for secret in of_kind(manifests, "Secret"):
        yield f"{title(secret)}: a Secret is made by hand, never kept in a repository"
    for program in programs(manifests, root):
        for name, value in program.environ.items():
            if _SECRET_NAMES.search(name) and value != UNKNOWN:
                yield f"{program.where}: {name} stands in a manifest"
    speaking: dict[bool, list[str]] = {True: [], False: []}
    for program, config in services(manifests, root):
        speaking[bool(config.tls_cert)].append(program.name)
        for name in _SECRET_FILES:
            path = getattr(config, name, "")
            if path and not _from_secret(program, path):
                yield f"{program.where}: {name} {path} does not come from a Secret"
        if program.name != "gateway":
            yield from _callers(program.where, config)
    for program, plan in fleets(manifests, root):
        config = code.settings(plan.name, plan.module_args[1:], {})
        speaking[bool(config.tls_cert)].append(plan.name)
        yield from _callers(f"{program.where}: {plan.name}s", config)
    if speaking[True] and speaking[False]:
        yield f"{', '.join(speaking[True])} with TLS, {', '.join(speaking[False])} without"


def _callers(where: str, config: Any) -> Iterator[str]:
    if config.tls_cert and config.tls_client_names != "gateway":
        yield f"{where}: whoever has a certificate may call it, not the gateway alone"


def _from_secret(program: Program, path: str) -> bool:
    secrets = {volume["name"] for volume in program.pod.spec.get("volumes") or [] if "secret" in volume}
    return any(
        PurePosixPath(path).is_relative_to(mount["mountPath"]) and mount["name"] in secrets
        for mount in program.container.get("volumeMounts") or []
    )
