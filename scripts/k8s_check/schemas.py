"""Strict validation: an unknown field is a fault.

Kubernetes' own schemas come in a package, those of custom resources from k8s/schemas.
"""

import json
from collections.abc import Iterator, Sequence
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import jsonschema
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012

from scripts.k8s_check.manifests import Manifest, title

VERSIONS = ("1.34", "1.37")  # the oldest that has all that the manifests use, and the newest known
_DEFINITIONS = "https://kubernetes.io/api/_definitions.json"  # what the schemas call it


def faults(manifests: Sequence[Manifest], root: Path) -> Iterator[str]:
    """Where a manifest breaks the schema of its kind, in any of the versions."""
    told = dict.fromkeys(fault for version in VERSIONS for fault in _of_version(manifests, version, root))
    yield from told


def _of_version(manifests: Sequence[Manifest], version: str, root: Path) -> Iterator[str]:
    for manifest in manifests:
        validator = _validator(manifest.get("apiVersion", ""), manifest.get("kind", ""), version, root)
        if validator is None:
            yield f"{title(manifest)}: no schema for {manifest.get('apiVersion')} {manifest.get('kind')}"
            continue
        for error in sorted(validator.iter_errors(manifest), key=lambda error: error.json_path):
            yield f"{title(manifest)}: {error.json_path[1:]}: {error.message[:300]}"


@cache
def _validator(api_version: str, kind: str, version: str, root: Path) -> Any:
    group, _, number = api_version.rpartition("/")
    own = root / "k8s" / "schemas" / f"{kind.lower()}-{group}-{number}.json"
    name = "-".join(part for part in (kind.lower(), group.partition(".")[0], number) if part)
    file = own if own.is_file() else _folder(version) / f"{name}.json"
    if not file.is_file():
        return None
    schema = json.loads(file.read_text(encoding="utf-8"))
    return jsonschema.Draft202012Validator(schema, registry=_registry(version))


@cache
def _registry(version: str) -> Any:
    definitions = json.loads((_folder(version) / "_definitions.json").read_text(encoding="utf-8"))
    return Registry().with_resource(
        _DEFINITIONS, Resource.from_contents(definitions, default_specification=DRAFT202012)
    )


def _folder(version: str) -> Path:
    schemas = resources.files("kubernetes_validate") / "kubernetes-json-schema" / f"v{version}.0-local-strict"
    return Path(str(schemas))
