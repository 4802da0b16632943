"""The kernel of paged_native, loaded for Python to call."""

import ctypes
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from forerun.engine import native_code
from forerun.engine.native_code import Kernel
from forerun.errors import ConfigError

KERNEL = Kernel(Path(__file__).parent / "native", "attend.cpp", "paged_native", "choose --attention paged_cpu")

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
    library = native_code.build(KERNEL)
    try:
        return NativeLibrary(
            getattr(ctypes.CDLL(str(library)), _FUNCTION),
            getattr(ctypes.PyDLL(str(library)), _FUNCTION),
            _openmp_parallel(),
        )
    except OSError as error:
        raise ConfigError(f"the attention kernel {library} cannot be loaded: {error}") from error


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
