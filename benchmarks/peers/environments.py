"""A virtual environment per peer in the cache folder, never the project's own."""

import shutil
import subprocess
import sys
from pathlib import Path

from forerun.models.cache_folder import cache_folder, locked

REQUIREMENTS = Path(__file__).parent / "requirements"
INSTALL_TORCH = Path(__file__).parent.parent.parent / "scripts" / "install_torch.py"
_FOR_CUDA = ("torchvision", "torchaudio", "torchcodec")
"""Required by some peers, unused for text, and on PyPI built for CUDA: beside a CPU torch they fail when imported."""


class NotInstalled(Exception):
    """A peer that cannot be installed here; the text is the installer's last line."""


def interpreter(peer: str) -> Path:
    """The Python of the peer's environment, which holds what requirements/<peer>.txt pins.

    The first call installs; a later one only where that file has changed. Raises NotInstalled.
    """
    pinned = (REQUIREMENTS / f"{peer}.txt").read_text(encoding="utf-8")
    folder = cache_folder("peers") / peer
    python, installed = folder / "bin" / "python", folder / "installed.txt"
    with locked(folder.with_suffix(".lock")):
        if not installed.is_file() or installed.read_text(encoding="utf-8") != pinned:
            print(f"installing {peer} into {folder}", flush=True)
            shutil.rmtree(folder, ignore_errors=True)
            _run(peer, sys.executable, "-m", "venv", str(folder))
            _install(peer, python, pinned)
            installed.write_text(pinned, encoding="utf-8")
    return python


def versions(peer: str) -> list[str]:
    """What the peer's environment is pinned to."""
    lines = (REQUIREMENTS / f"{peer}.txt").read_text(encoding="utf-8").splitlines()
    return [line.split(" --")[0] for line in lines if line and not line.startswith("#")]


def _install(peer: str, python: Path, pinned: str) -> None:
    torch = next((line for line in pinned.splitlines() if line.startswith("torch==")), None)
    if torch is not None:
        _run(peer, str(python), str(INSTALL_TORCH), "cpu", torch)
    requirements = str(REQUIREMENTS / f"{peer}.txt")
    _run(peer, str(python), "-m", "pip", "install", "--disable-pip-version-check", "-r", requirements)
    if torch is not None:
        _run(peer, str(python), "-m", "pip", "uninstall", "--yes", *_FOR_CUDA)


def _run(peer: str, *command: str) -> None:
    log = cache_folder("peers") / f"{peer}.log"
    with log.open("a", encoding="utf-8") as output:
        done = subprocess.run(("nice", "-n", "10", *command), stdout=output, stderr=subprocess.STDOUT, check=False)
    if done.returncode != 0:
        raise NotInstalled(f"{last_line(log)} ({log})")


def last_line(log: Path) -> str:
    """The last line of a log that says anything."""
    lines = [line.strip() for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    return lines[-1] if lines else "no output"


if __name__ == "__main__":
    for name in sys.argv[1:]:
        print(interpreter(name), flush=True)
