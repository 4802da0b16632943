"""Installs the pinned torch in the build that this machine can use.

    python scripts/install_torch.py auto|cpu|cuda [torch==VERSION]

On Linux, PyPI's torch is a CUDA build of gigabytes. So pip is first asked what it would choose; only where that is
no CPU build, PyTorch's own index of CPU builds is added.
"""

import importlib.metadata
import json
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CPU_INDEX = "https://download.pytorch.org/whl/cpu"
PIP = (sys.executable, "-m", "pip", "install")
_CUDA_PACKAGES = ("nvidia-", "cuda-", "triton")


def main(choice: str, requirement: str = "") -> None:
    """Leaves `requirement`, else the project's torch, installed; exits with a sentence where `choice` is unknown."""
    requirement = requirement or pinned_requirement(ROOT / "pyproject.toml")
    if choice not in ("auto", "cpu", "cuda"):
        sys.exit(f"TORCH={choice} is unknown; use auto, cpu or cuda")
    cuda = choice == "cuda" or (choice == "auto" and has_nvidia())
    if is_installed(requirement):
        return
    print(f"Installing {requirement} ({'CUDA' if cuda else 'CPU'} build)", flush=True)
    if cuda or would_choose_cpu(requirement):
        subprocess.run([*PIP, requirement], check=True)
    else:
        subprocess.run([*PIP, f"{requirement}+cpu", "--extra-index-url", CPU_INDEX], check=True)


def pinned_requirement(pyproject: Path) -> str:
    """The torch line of the project's dependencies."""
    dependencies = tomllib.loads(pyproject.read_text(encoding="utf-8"))["project"]["dependencies"]
    return next(line for line in dependencies if line.startswith("torch=="))


def is_installed(requirement: str) -> bool:
    """Whether that release is there already, whatever its build."""
    try:
        return importlib.metadata.version("torch").split("+")[0] == requirement.removeprefix("torch==")
    except importlib.metadata.PackageNotFoundError:
        return False


def has_nvidia() -> bool:
    """Whether a driver answers."""
    try:
        return subprocess.run(["nvidia-smi", "-L"], capture_output=True, timeout=30).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def would_choose_cpu(requirement: str) -> bool:
    """Asks pip, as it is configured, what it would install; nothing is installed and little is fetched."""
    command = [*PIP, "--dry-run", "--no-deps", "--ignore-installed", "--quiet", "--report", "-", requirement]
    answer = subprocess.run(command, capture_output=True, text=True)
    if answer.returncode != 0:
        return False
    return is_cpu_build(json.loads(answer.stdout)["install"][0]["metadata"])


def is_cpu_build(metadata: dict[str, object]) -> bool:
    """A CPU build says so in its version, or at least asks for no CUDA library."""
    if str(metadata["version"]).endswith("+cpu"):
        return True
    needs = metadata.get("requires_dist") or []
    assert isinstance(needs, list)
    return not any(str(need).startswith(_CUDA_PACKAGES) for need in needs)


if __name__ == "__main__":
    main(*(sys.argv[1:] or ["auto"]))
