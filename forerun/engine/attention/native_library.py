"""The kernel of paged_native: compiled for this machine by the system's C++ compiler at first use, then kept."""

import ctypes
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from forerun.errors import ConfigError
from forerun.models.cache_folder import cache_folder, locked

SOURCES = Path(__file__).parent / "native"
MAIN = "attend.cpp"

_COMPILERS = ("g++", "c++", "clang++")
_FLAGS = ("-std=c++17", "-O3", "-march=native", "-shared", "-fPIC", "-fvisibility=hidden", "-w")
# What is written is what is computed: a row's bits would otherwise depend on the loop that it was inlined into.
_EXACT = ("-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math")
_FUNCTION = "forerun_attend"
_PARALLEL = "GOMP_parallel"
_OPENMP_RUNTIMES = ("libgomp", "libiomp5", "libomp")


@dataclass(frozen=True, slots=True)
class NativeLibrary:
    """attend lets other threads run Python meanwhile; attend_briefly does not, which is quicker.

    parallel: the address of GOMP_parallel in the OpenMP runtime that torch loaded, None where it loaded none.
    """

    attend: Any
    attend_briefly: Any
    parallel: int | None


def load() -> NativeLibrary:
    """Compiles the kernel where the cache folder lacks it, in a few seconds.

    Raises ConfigError where there is no compiler, or with what it said.
    """
    compiler = find_compiler(os.environ)
    folder = cache_folder("native")
    _check_private(folder)
    library = folder / f"{_key(compiler)}.so"
    if not library.exists():
        with locked(folder / "lock"):
            if not library.exists():
                _compile(compiler, library)
    try:
        return NativeLibrary(
            getattr(ctypes.CDLL(str(library)), _FUNCTION),
            getattr(ctypes.PyDLL(str(library)), _FUNCTION),
            _openmp_parallel(),
        )
    except OSError as error:
        raise ConfigError(f"the attention kernel in {folder} cannot be loaded: {error}") from error


def find_compiler(environ: Mapping[str, str]) -> str:
    """$CXX, else the first of g++, c++, clang++. Raises ConfigError where there is none."""
    path = environ.get("PATH")
    for name in (environ.get("CXX", ""), *_COMPILERS):
        if name and (found := shutil.which(name, path=path)):
            return found
    raise ConfigError("paged_native needs a C++ compiler: install g++ or choose --attention paged_cpu")


def _key(compiler: str) -> str:
    """Changes with whatever the result depends on: sources, compiler, flags, CPU."""
    version = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=False).stdout
    facts = [version, *_FLAGS, *_EXACT, platform.machine(), _cpu_flags()]
    digest = hashlib.sha256("\0".join(facts).encode())
    for source in sorted(SOURCES.iterdir()):
        digest.update(source.read_bytes())
    return digest.hexdigest()[:20]


def _cpu_flags() -> str:
    path = Path("/proc/cpuinfo")
    lines = path.read_text().splitlines() if path.exists() else []
    return next((line for line in lines if line.startswith(("flags", "Features"))), platform.processor())


def _check_private(folder: Path) -> None:
    """Code is run from there."""
    facts = folder.stat()
    if facts.st_uid != os.getuid() or facts.st_mode & 0o022:
        raise ConfigError(f"{folder} must belong to this user alone: code is loaded from it")


def _compile(compiler: str, library: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="unfinished-", dir=library.parent) as folder:
        unfinished = Path(folder) / library.name
        command = [compiler, *_FLAGS, *_EXACT, str(SOURCES / MAIN), "-o", str(unfinished)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            first = next((line for line in done.stderr.splitlines() if "error" in line), "it said nothing")
            raise ConfigError(f"{compiler} cannot compile the attention kernel: {first}")
        unfinished.rename(library)


def _openmp_parallel() -> int | None:
    for path in _openmp_runtimes():
        parallel = getattr(ctypes.CDLL(path), _PARALLEL, None)
        if parallel is not None:
            return ctypes.cast(parallel, ctypes.c_void_p).value
    return None


def _openmp_runtimes() -> Iterator[str]:
    """Those that this process has loaded."""
    with open("/proc/self/maps") as maps:
        paths = {line.split(maxsplit=5)[-1].strip() for line in maps if len(line.split()) > 5}
    return (path for path in sorted(paths) if Path(path).name.startswith(_OPENMP_RUNTIMES))
