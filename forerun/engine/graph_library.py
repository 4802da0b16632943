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

from forerun.errors import ConfigError

LIBRARY = "model.so"

_capsule = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
capsule_of = _capsule(("PyCapsule_New", ctypes.pythonapi))
_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
pointer_in = _pointer(("PyCapsule_GetPointer", ctypes.pythonapi))


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
    """Of any number of inputs and one output; never one that calls operators without a C name.

    Raises ConfigError where it cannot be loaded.
    """

    def __init__(self, library: Path) -> None:
        self._container = ctypes.c_void_p()
        try:
            self._library = ctypes.CDLL(str(library))
        except OSError as error:
            raise ConfigError(f"the compiled model {library} cannot be loaded: {error}") from error
        create, one_runner = self._library.AOTInductorModelContainerCreateWithDevice, ctypes.c_size_t(1)
        if create(ctypes.byref(self._container), one_runner, b"cpu", None):
            raise ConfigError(f"the compiled model {library} cannot be loaded; what it said stands above")

    def __call__(self, *inputs: torch.Tensor) -> torch.Tensor:
        """Raises RuntimeError where the graph fails; it has written to stderr why."""
        aoti: Any = torch._C._aoti
        capsules = aoti.unsafe_alloc_void_ptrs_from_tensors(list(inputs))
        handles = (ctypes.c_void_p * len(inputs))(*(pointer_in(capsule, None) for capsule in capsules))
        output = (ctypes.c_void_p * 1)()
        sizes = ctypes.c_size_t(len(inputs)), ctypes.c_size_t(1)
        run = self._library.AOTInductorModelContainerRun
        if run(self._container, handles, sizes[0], output, sizes[1], None, None):
            raise RuntimeError("the compiled model failed; what it said stands above")
        # The one for a lone tensor leaves the callee's reference behind.
        (result,) = aoti.alloc_tensors_by_stealing_from_void_ptrs([capsule_of(output[0], None, None)])
        given: torch.Tensor = result
        return given

    def __del__(self) -> None:
        if self._container:
            self._library.AOTInductorModelContainerDelete(self._container)
