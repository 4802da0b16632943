"""Overlays as kubectl renders them."""

import shutil
import subprocess
import sys
from pathlib import Path

import yaml

from scripts.k8s_check.manifests import Manifest


class RenderError(Exception):
    """kubectl refuses an overlay, or there is no kubectl."""


def overlays(root: Path) -> list[Path]:
    """Every folder that can be applied."""
    return sorted(path.parent for path in (root / "k8s" / "overlays").glob("*/kustomization.yaml"))


def render(folder: Path) -> list[Manifest]:
    """What `kubectl apply -k` would send. Raises RenderError with kubectl's words."""
    result = subprocess.run([_kubectl(), "kustomize", str(folder)], capture_output=True, text=True, timeout=60)
    if result.returncode != 0 or result.stderr.strip():
        raise RenderError(f"{folder}: {result.stderr.strip()}")
    return [manifest for manifest in yaml.safe_load_all(result.stdout) if manifest]


def _kubectl() -> str:
    """The pinned one beside this Python, else the machine's."""
    pinned = Path(sys.executable).parent / "kubectl"
    found = str(pinned) if pinned.is_file() else shutil.which("kubectl")
    if found is None:
        raise RenderError("no kubectl: `make install-dev` installs the pinned one")
    return found
