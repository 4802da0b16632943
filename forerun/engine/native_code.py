"""Kernels in C++: compiled for this machine by the system's compiler at first use, then kept in the cache folder."""

import hashlib
import os
import platform
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch

from forerun.errors import ConfigError
from forerun.models.cache_folder import OWN_ALONE, cache_folder, check_trusted, clear_unfinished, locked, unfinished

FLAGS = ("-std=c++17", "-O3", "-march=native", "-shared", "-fPIC", "-fvisibility=hidden", "-w")
# What is written is what is computed: a row's bits would otherwise depend on the loop that it was inlined into.
_EXACT = ("-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math")
_COMPILERS = ("g++", "c++", "clang++")


@dataclass(frozen=True, slots=True)
class Kernel:
    """A folder of sources whose `main` makes a shared library.

    title: what messages call it. way_out: what its user may do without it. flags: those of the library's own, paths of
    installed headers and libraries among them.
    """

    sources: Path
    main: str
    title: str
    way_out: str
    flags: tuple[str, ...] = ()


def build(kernel: Kernel) -> Path:
    """The kernel's shared library, compiled where the cache folder lacks it, in a few seconds.

    Raises ConfigError where there is no compiler, with what it said, or where others may write to the folder.
    """
    compiler = find_compiler(os.environ)
    if compiler is None:
        raise ConfigError(f"{kernel.title} needs a C++ compiler: install g++ or {kernel.way_out}")
    folder = cache_folder("native")
    check_trusted(folder)
    library = folder / f"{_key(kernel, compiler)}.so"
    if not library.exists():
        with locked(folder / f"{library.stem}.lock"):
            if not library.exists():
                _compile(kernel, compiler, library)
    check_trusted(library)
    return library


def find_compiler(environ: Mapping[str, str]) -> str | None:
    """$CXX, else the first of g++, c++, clang++."""
    path = environ.get("PATH")
    names = (environ.get("CXX", ""), *_COMPILERS)
    return next((found for name in names if name and (found := shutil.which(name, path=path))), None)


def torch_flags() -> tuple[str, ...]:
    """Of a library that is linked with torch's C interface, which lies where torch was installed."""
    folder = Path(torch.__file__).parent
    return ("-isystem", str(folder / "include"), "-L", str(folder / "lib"), "-ltorch_cpu")


def cpu_flags() -> str:
    """What this machine's instructions are, as the system lists them."""
    path = Path("/proc/cpuinfo")
    lines = path.read_text().splitlines() if path.exists() else []
    return next((line for line in lines if line.startswith(("flags", "Features"))), platform.processor())


def _key(kernel: Kernel, compiler: str) -> str:
    """Changes with whatever the result depends on: sources, compiler, flags, CPU."""
    version = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=False).stdout
    facts = [version, *FLAGS, *_EXACT, *kernel.flags, platform.machine(), cpu_flags()]
    digest = hashlib.sha256("\0".join(facts).encode())
    for source in sorted(kernel.sources.iterdir()):
        digest.update(source.read_bytes())
    return digest.hexdigest()[:20]


def _compile(kernel: Kernel, compiler: str, library: Path) -> None:
    clear_unfinished(library.parent, library.stem)
    folder = unfinished(library.parent, library.stem)
    try:
        made = folder / library.name
        command = [compiler, *FLAGS, *_EXACT, str(kernel.sources / kernel.main), *kernel.flags, "-o", str(made)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, umask=OWN_ALONE)
        if done.returncode:
            first = next((line for line in done.stderr.splitlines() if "error" in line), "it said nothing")
            raise ConfigError(f"{compiler} cannot compile {kernel.title}: {first}")
        made.rename(library)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
