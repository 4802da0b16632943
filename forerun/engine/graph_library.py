"""A graph that was compiled into a shared library, called by its C interface.

torch's own loader holds Python's lock while the graph runs, for milliseconds in which no message is read or sent. This
one calls the same functions (torch/csrc/inductor/aoti_runtime/interface.h) without it.
"""

import ctypes
import json
import shutil
import zipfile
from pathlib import Path
from typing import Any

import torch

from forerun.engine import native_code
from forerun.engine.native_code import Kernel
from forerun.errors import ConfigError

LIBRARY = "model.so"

_capsule = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
capsule_of = _capsule(("PyCapsule_New", ctypes.pythonapi))


class _Numbers(ctypes.Structure):
    """`Numbers` of native/graph.cpp."""

    _fields_ = (("first", ctypes.c_void_p), ("count", ctypes.c_int64))


def take_out(package: Path) -> Path:
    """What to load: LIBRARY, taken out of the package, where it calls nothing but C; else that, for torch's loader.

    Operators without a C name are called by what the loader brings, and stand in a list of its own in the package.
    """
    with zipfile.ZipFile(package) as files:
        names = files.namelist()
        lists = [json.loads(files.read(name)) for name in names if name.endswith(".wrapper.json")]
        libraries = [name for name in names if name.endswith(".so")]
        if len(libraries) != 1 or any(found["nodes"] for found in lists):
            return package
        library = package.with_name(LIBRARY)
        with files.open(libraries[0]) as packed, library.open("wb") as output:
            shutil.copyfileobj(packed, output)
    package.unlink()
    return library


class GraphLibrary:
    """Of inputs of whole numbers and one output; never one that calls operators without a C name.

    Raises ConfigError where it cannot be loaded.
    """

    def __init__(self, library: Path) -> None:
        self._container = ctypes.c_void_p()
        folder, title, way_out = Path(__file__).parent / "native", "the compiled model", "choose --compile off"
        runner = native_code.build(Kernel(folder, "graph.cpp", title, way_out, native_code.torch_flags()))
        try:
            self._run_graph = ctypes.CDLL(str(runner)).forerun_run_graph
            self._library = ctypes.CDLL(str(library))
        except OSError as error:
            raise ConfigError(f"the compiled model {library} cannot be loaded: {error}") from error
        create, one_runner = self._library.AOTInductorModelContainerCreateWithDevice, ctypes.c_size_t(1)
        if create(ctypes.byref(self._container), one_runner, b"cpu", None):
            raise ConfigError(f"the compiled model {library} cannot be loaded; what it said stands above")

    def __call__(self, *inputs: torch.Tensor) -> torch.Tensor:
        """inputs: contiguous `[n] int64`, to which zeros are added up to compiled.MIN_SIZE, or a single number.

        Raises RuntimeError where the graph fails; it has written to stderr why.
        """
        numbers = (_Numbers * len(inputs))(*(_Numbers(of.data_ptr(), len(of) if of.ndim else -1) for of in inputs))
        run, output = self._library.AOTInductorModelContainerRun, ctypes.c_void_p()
        if self._run_graph(run, self._container, numbers, ctypes.c_size_t(len(inputs)), ctypes.byref(output)):
            raise RuntimeError("the compiled model failed; what it said stands above")
        # The one for a lone tensor leaves the callee's reference behind.
        aoti: Any = torch._C._aoti
        (result,) = aoti.alloc_tensors_by_stealing_from_void_ptrs([capsule_of(output, None, None)])
        given: torch.Tensor = result
        return given

    def __del__(self) -> None:
        if self._container:
            self._library.AOTInductorModelContainerDelete(self._container)
