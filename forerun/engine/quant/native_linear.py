"""Packed weights of 16, 8 or 4 bits times activations as they are, as an operator: native/, for graphs and Python.

What a row gives does not depend on the rows beside it, their number or the threads, not by a bit, and with weights of 8
or 4 bits not on the machine either; see native/rows.h for how exact that is.
"""

import ctypes
import functools
import platform
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from forerun.engine import native_code
from forerun.engine.native_code import Kernel
from forerun.errors import ConfigError

SCHEMA = "packed_linear(Tensor rows, Tensor packed, Tensor columns) -> Tensor"
"""rows `[…, K] bf16`, columns `[2, N] float32`: scales and biases → `[…, N] bf16`.

packed is int8 or bf16 of `pack`, or uint8 of `pack_groups`.
"""

C_SHIM = (
    "AOTITorchError aoti_torch_cpu_packed_linear(AtenTensorHandle rows, AtenTensorHandle packed, "
    "AtenTensorHandle columns, AtenTensorHandle* output)"
)
"""What a compiled graph calls; the library that has it must be loaded before the graph's."""

LAYOUT = 4  # raise it when what graphs hold or call changes: the operator, its arguments, the order of packed weights

MAX_DEPTH = 1 << 17
"""Of a row's sums, which stay below 2^31 so."""

BLOCK_COLUMNS, _TILE_COLUMNS, _LINE, _QUAD = 32, 16, 64, 4  # see native/numbers.h
_STEP_GROUPS = 2  # see native/groups.h
_BITS = {torch.bfloat16: 16, torch.int8: 8, torch.uint8: 4}
_MACHINES = ("x86_64", "AMD64")


def kernel() -> Kernel:
    """The sources in native/."""
    folder, title, way_out = Path(__file__).parent / "native", "the product kernel", "choose --precision bf16"
    return Kernel(folder, "linear.cpp", title, way_out, native_code.torch_flags())


@functools.cache
def register() -> Any:
    """Defines torch.ops.forerun.packed_linear; what is returned keeps it defined, here as long as the process.

    Raises ConfigError where the kernel cannot be compiled.
    """
    if platform.machine() not in _MACHINES:
        raise ConfigError(f"the product kernel is for x86-64, not for {platform.machine()}")
    run = load().forerun_packed_linear
    library: Any = torch.library.Library("forerun", "FRAGMENT")  # type: ignore[no-untyped-call]
    library.define(SCHEMA)
    library.impl("packed_linear", functools.partial(multiply, run), "CPU")
    torch.library.register_fake("forerun::packed_linear", _shape, lib=library)
    return library


def operator() -> Any:
    """As it stands in graphs. Needs `register`."""
    return torch.ops.forerun.packed_linear.default


def serves() -> bool:
    """Whether this machine has, or can compile, the kernel."""
    try:
        register()
    except ConfigError:
        return False
    return True


def pack(weight: torch.Tensor) -> torch.Tensor:
    """In the order in which the kernel reads it, padded with zeros.

    `[N, K]` int8 → `[N / 32, K / 64, 2, 16, 16, 4]`, bf16 → `[N / 32, K / 32, 2, 16, 16, 2]`.

    A block of 32 columns is read along K, 64 bytes a step: two tiles of 16 columns, in each 16 times 4 bytes of every
    column.
    """
    columns, depth = weight.shape
    quad, step = _QUAD // weight.element_size(), _LINE // weight.element_size()
    padded = functional.pad(weight, (0, -depth % step, 0, -columns % BLOCK_COLUMNS))
    tiles = padded.view(-1, BLOCK_COLUMNS // _TILE_COLUMNS, _TILE_COLUMNS, padded.shape[1] // step, 16, quad)
    return tiles.permute(0, 3, 1, 4, 2, 5).contiguous()


def pack_groups(levels: torch.Tensor, steps: torch.Tensor, bases: torch.Tensor) -> torch.Tensor:
    """levels `[N, G, 32]` below 16, steps, bases `[N, G]` → `[N / 32, K / 64, 2, 2, 5, 64] uint8`; see native/groups.h.

    Of 16 columns and 32 numbers along K: {step, base} of each column, then four lines of levels, in each two quads.
    """
    missing_groups, missing_columns = -levels.shape[1] % _STEP_GROUPS, -levels.shape[0] % BLOCK_COLUMNS
    padding = (0, missing_groups, 0, missing_columns)
    padded = functional.pad(levels, (0, 0, *padding))
    pairs = padded.view(-1, 2, _TILE_COLUMNS, padded.shape[1] // _STEP_GROUPS, _STEP_GROUPS, 4, 2, _QUAD // 2, 2)
    bytes_ = (pairs[..., 0] | pairs[..., 1] << 4).permute(0, 3, 1, 4, 5, 2, 7, 6)
    facts = functional.pad(torch.stack([steps, bases], dim=-1).short(), (0, 0, *padding))
    facts = facts.view(-1, 2, _TILE_COLUMNS, facts.shape[1] // _STEP_GROUPS, _STEP_GROUPS, 2).permute(0, 3, 1, 4, 2, 5)
    of_bytes = facts.contiguous().view(torch.uint8)
    return torch.cat([of_bytes.reshape(*of_bytes.shape[:4], 1, 64), bytes_.flatten(5)], dim=4).contiguous()


class PackedLinear(nn.Module):
    """packed: of `pack` or `pack_groups`. columns `[2, out] float32`: scales and biases."""

    packed: torch.Tensor
    columns: torch.Tensor

    def __init__(self, packed: torch.Tensor, scale: torch.Tensor, bias: torch.Tensor | None) -> None:
        super().__init__()
        biases = torch.zeros_like(scale) if bias is None else bias.detach()
        self.register_buffer("packed", packed)
        self.register_buffer("columns", torch.stack([scale, biases]).float())

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """rows `[…, in] bf16` → `[…, out]`."""
        product: torch.Tensor = torch.ops.forerun.packed_linear(rows, self.packed, self.columns)
        return product


def takes(linear: nn.Linear) -> bool:
    """Whether our kernel multiplies by this layer's weights."""
    weight = linear.weight
    return weight.dtype == torch.bfloat16 and weight.is_cpu and linear.in_features <= MAX_DEPTH


def replace(module: Any, made: Callable[[nn.Linear, bool], nn.Module]) -> None:
    """Puts `made(linear, is_native)` in the place of every linear layer of `module`."""
    is_served = serves()
    for name, child in list(module.named_modules()):
        if isinstance(child, nn.Linear):
            parent, _, own_name = name.rpartition(".")
            setattr(module.get_submodule(parent), own_name, made(child, is_served and takes(child)))


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
        ("bits", ctypes.c_long),
    )


def load() -> ctypes.CDLL:
    """The kernel, where compiled graphs find it too."""
    library = native_code.build(kernel())
    try:
        return ctypes.CDLL(str(library), ctypes.RTLD_GLOBAL)
    except OSError as error:
        raise ConfigError(f"the product kernel {library} cannot be loaded: {error}") from error


def multiply(run: Any, rows: torch.Tensor, packed: torch.Tensor, columns: torch.Tensor) -> torch.Tensor:
    """`run` is a library's forerun_packed_linear; see SCHEMA."""
    rows = rows.contiguous()
    output = _shape(rows, packed, columns)
    depth, num_columns = rows.shape[-1], columns.shape[1]
    scales = columns.data_ptr()
    biases = scales + num_columns * columns.element_size()
    num_rows = rows.numel() // depth
    bits = _BITS[packed.dtype]
    pointers = (rows.data_ptr(), packed.data_ptr(), scales, biases, output.data_ptr())
    call = _Call(*pointers, num_rows, depth, num_columns, bits)
    run(ctypes.byref(call))
    return output


def _shape(rows: torch.Tensor, packed: torch.Tensor, columns: torch.Tensor) -> torch.Tensor:
    return rows.new_empty(*rows.shape[:-1], columns.shape[1])
