"""The kernel of paged_native, loaded for Python and for compiled graphs to call."""

import ctypes
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from forerun.engine import native_code
from forerun.engine.native_code import Kernel
from forerun.errors import ConfigError

C_SHIM = (
    "AOTITorchError aoti_torch_cpu_paged_attention(AtenTensorHandle query, AtenTensorHandle key, "
    "AtenTensorHandle value, AtenTensorHandle step, int64_t layer, double scale, int64_t sliding_window, "
    "double softcap, AtenTensorHandle* sinks, AtenTensorHandle* output)"
)
"""What a compiled graph calls; the library that has it must be loaded before the graph's."""

LAYOUT = 1  # raise it when what graphs call or what a step's handle stands for changes

_FUNCTION = "forerun_attend"
_PARALLEL = "GOMP_parallel"
_OPENMP_RUNTIMES = ("libgomp", "libiomp5", "libomp")


class Step(ctypes.Structure):
    """`Step` of native/call.h."""

    _fields_ = (
        ("segments", ctypes.c_void_p),
        ("blocks", ctypes.c_void_p),
        ("parallel", ctypes.c_void_p),
        ("num_segments", ctypes.c_int32),
        ("block_size", ctypes.c_int32),
        ("num_threads", ctypes.c_int32),
    )


class Layer(ctypes.Structure):
    """`Layer` of native/call.h."""

    _fields_ = (
        ("query", ctypes.c_void_p),
        ("output", ctypes.c_void_p),
        ("keys", ctypes.c_void_p),
        ("values", ctypes.c_void_p),
        ("sinks", ctypes.c_void_p),
        ("scale", ctypes.c_float),
        ("softcap", ctypes.c_float),
        ("window", ctypes.c_int32),
        ("num_heads", ctypes.c_int32),
        ("num_kv_heads", ctypes.c_int32),
        ("head_dim", ctypes.c_int32),
    )


class StepCall(ctypes.Structure):
    """`PagedStep` of native/call.h; as it is made, Python attends."""

    _fields_ = (
        ("step", ctypes.c_void_p),
        ("keys", ctypes.c_void_p),
        ("values", ctypes.c_void_p),
        ("slots", ctypes.c_void_p),
        ("num_rows", ctypes.c_int32),
        ("num_kv_heads", ctypes.c_int32),
        ("head_dim", ctypes.c_int32),
        ("bytes", ctypes.c_int32),
    )


@dataclass(frozen=True, slots=True)
class NativeLibrary:
    """attend lets other threads run Python meanwhile; attend_briefly does not, which is quicker.

    parallel: the address of GOMP_parallel in the OpenMP runtime that torch loaded, None where it loaded none.
    """

    attend: Any
    attend_briefly: Any
    parallel: int | None


def kernel() -> Kernel:
    """The sources in native/."""
    folder, way_out = Path(__file__).parent / "native", "choose --attention paged_cpu"
    return Kernel(folder, "library.cpp", "paged_native", way_out, native_code.torch_flags())


def load() -> NativeLibrary:
    """Compiles the kernel where the cache folder lacks it, in a few seconds.

    Raises ConfigError where there is no compiler, or with what it said.
    """
    library = native_code.build(kernel())
    try:
        return NativeLibrary(
            getattr(ctypes.CDLL(str(library), ctypes.RTLD_GLOBAL), _FUNCTION),
            getattr(ctypes.PyDLL(str(library)), _FUNCTION),
            _openmp_parallel(),
        )
    except OSError as error:
        raise ConfigError(f"the attention kernel {library} cannot be loaded: {error}") from error


def serves() -> bool:
    """Whether this machine has, or can compile, the kernel."""
    try:
        load()
    except ConfigError:
        return False
    return True


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
