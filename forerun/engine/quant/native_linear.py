"""int8 weights times activations as they are, as an operator: the kernel in native/, for graphs and for Python.

What a row gives does not depend on the rows beside it, their number, the threads or the machine, not by a bit; see
native/rows.h for how exact it is.
"""

import ctypes
import functools
import platform
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional

from forerun.engine import native_code
from forerun.engine.native_code import Kernel
from forerun.errors import ConfigError

SCHEMA = "int8_linear(Tensor rows, Tensor packed, Tensor columns) -> Tensor"
"""rows `[…, K] bf16`, packed: see `pack`, columns `[2, N] float32`: scales and biases → `[…, N] bf16`."""

C_SHIM = (
    "AOTITorchError aoti_torch_cpu_int8_linear(AtenTensorHandle rows, AtenTensorHandle packed, "
    "AtenTensorHandle columns, AtenTensorHandle* output)"
)
"""What a compiled graph calls; the library that has it must be loaded before the graph's."""

LAYOUT = 2  # raise it when what graphs hold or call changes: the operator, its arguments, the order of packed weights

MAX_DEPTH = 1 << 17
"""Of a row's sums, which stay below 2^31 so."""

BLOCK_COLUMNS, _TILE_COLUMNS, _DEPTH, _QUAD = 32, 16, 64, 4  # see native/numbers.h
_MACHINES = ("x86_64", "AMD64")


def kernel() -> Kernel:
    """Linked with torch's C interface, which lies where torch was installed."""
    torch_folder = Path(torch.__file__).parent
    flags = ("-isystem", str(torch_folder / "include"), "-L", str(torch_folder / "lib"), "-ltorch_cpu")
    return Kernel(Path(__file__).parent / "native", "linear.cpp", "the int8 kernel", "choose --precision bf16", flags)


@functools.cache
def register() -> Any:
    """Defines torch.ops.forerun.int8_linear; what is returned keeps it defined, here as long as the process.

    Raises ConfigError where the kernel cannot be compiled.
    """
    if platform.machine() not in _MACHINES:
        raise ConfigError(f"the int8 kernel is for x86-64, not for {platform.machine()}")
    run = load().forerun_int8_linear
    library: Any = torch.library.Library("forerun", "FRAGMENT")  # type: ignore[no-untyped-call]
    library.define(SCHEMA)
    library.impl("int8_linear", functools.partial(multiply, run), "CPU")
    torch.library.register_fake("forerun::int8_linear", _shape, lib=library)
    return library


def operator() -> Any:
    """As it stands in graphs. Needs `register`."""
    return torch.ops.forerun.int8_linear.default


def serves() -> bool:
    """Whether this machine has, or can compile, the kernel."""
    try:
        register()
    except ConfigError:
        return False
    return True


def pack(weight: torch.Tensor) -> torch.Tensor:
    """`[N, K] int8` → `[N / 32, K / 64, 2, 16, 16, 4]` in the order in which the kernel reads it, padded with zeros.

    A block of 32 columns is read along K, 64 numbers a step: two tiles of 16 columns, in each 16 times 4 numbers of
    every column.
    """
    columns, depth = weight.shape
    padded = functional.pad(weight, (0, -depth % _DEPTH, 0, -columns % BLOCK_COLUMNS))
    tiles = padded.view(-1, BLOCK_COLUMNS // _TILE_COLUMNS, _TILE_COLUMNS, padded.shape[1] // _DEPTH, 16, _QUAD)
    return tiles.permute(0, 3, 1, 4, 2, 5).contiguous()


class _Call(ctypes.Structure):
    """`Call` of native/linear.h."""

    _fields_ = (
        ("rows", ctypes.c_void_p),
        ("weights", ctypes.c_void_p),
        ("scales", ctypes.c_void_p),
        ("biases", ctypes.c_void_p),
        ("output", ctypes.c_void_p),
        ("num_rows", ctypes.c_long),
        ("depth", ctypes.c_long),
        ("columns", ctypes.c_long),
    )


def load() -> ctypes.CDLL:
    """The kernel, where compiled graphs find it too."""
    library = native_code.build(kernel())
    try:
        return ctypes.CDLL(str(library), ctypes.RTLD_GLOBAL)
    except OSError as error:
        raise ConfigError(f"the int8 kernel {library} cannot be loaded: {error}") from error


def multiply(run: Any, rows: torch.Tensor, packed: torch.Tensor, columns: torch.Tensor) -> torch.Tensor:
    """`run` is a library's forerun_int8_linear; see SCHEMA."""
    rows = rows.contiguous()
    output = _shape(rows, packed, columns)
    depth, num_columns = rows.shape[-1], columns.shape[1]
    scales = columns.data_ptr()
    biases = scales + num_columns * columns.element_size()
    num_rows = rows.numel() // depth
    call = _Call(rows.data_ptr(), packed.data_ptr(), scales, biases, output.data_ptr(), num_rows, depth, num_columns)
    run(ctypes.byref(call))
    return output


def _shape(rows: torch.Tensor, packed: torch.Tensor, columns: torch.Tensor) -> torch.Tensor:
    return rows.new_empty(*rows.shape[:-1], columns.shape[1])
