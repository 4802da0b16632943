"""Compiles a model ahead of time: `python -m forerun.engine.aot OUTPUT FOLDER PRECISION THREADS EMBEDDING_FROM`.

Exported once with a free number of rows, frozen (weights become constants in the layout that the kernels read), and
compiled by inductor into a package that is loaded in under a second.
"""

import functools
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch._inductor import aoti_compile_and_package
from torch._inductor.codegen.common import KernelTemplate
from torch._inductor.cpp_builder import get_cpp_compiler
from torch._inductor.cpu_vec_isa import VecISA
from torch._inductor.select_algorithm import add_preprocessing_fn

from forerun import tether
from forerun.engine import graph_library, paged_op, torch_setup
from forerun.engine.attention import native_library
from forerun.engine.compiled import FACTS, MIN_SIZE, PACKAGE, Recipe
from forerun.engine.model import LoadedModel, load
from forerun.engine.quant import bf16, native_linear, siblings

_ROWS, _LOGITS = 5, 3  # distinct, and neither of them a size with a meaning
_MAX_SIZE = 1 << 20
_INDUCTOR = {"freezing": True, "max_autotune": True, "max_autotune_gemm_backends": "CPP,ATEN"}


def compile_into(output: Path, recipe: Recipe) -> None:
    """Writes the package and the facts that are not in the model folder's own files."""
    torch_setup.prepare(recipe.num_threads)
    loaded = load(recipe.folder, recipe.precision, torch.device("cpu"), recipe.embedding_from)
    if recipe.precision == "bf16" and bf16.pays():
        bf16.pack(loaded.forward)
    with torch.no_grad():
        calls = package(_export(loaded), output / PACKAGE)
    file = graph_library.take_out(output / PACKAGE)
    facts = {"head_size": loaded.head_size, "calls": calls, "file": file.name}
    (output / FACTS).write_text(json.dumps(facts))


def package(exported: torch.export.ExportedProgram, path: Path) -> list[str]:
    """Compiles a graph; returns the names of operators of ours that it calls in C, for `compiled.load_kernels`."""
    add_preprocessing_fn(_prefer_templates)
    _parse_templates_once()
    _try_flags_on_little()
    _leave_threads_open()
    calls = _native_calls(exported)
    settings = {**_INDUCTOR, "aot_inductor.custom_ops_to_c_shims": calls}
    aoti_compile_and_package(exported, package_path=str(path), inductor_configs=settings)
    return [operator.name() for operator in calls]


def _export(loaded: LoadedModel) -> torch.export.ExportedProgram:
    """Any number of rows and of logits from MIN_SIZE on."""
    rows = torch.export.Dim("rows", min=MIN_SIZE, max=_MAX_SIZE)
    logits = torch.export.Dim("logits", min=MIN_SIZE, max=_MAX_SIZE)
    ids = torch.zeros(_ROWS, dtype=torch.long)
    example = (ids, torch.arange(_ROWS), torch.arange(_LOGITS), torch.tensor(0))
    module: Any = loaded.forward
    return torch.export.export(module, example, dynamic_shapes=({0: rows}, {0: rows}, {0: logits}, None))


def _native_calls(exported: torch.export.ExportedProgram) -> dict[Any, list[str]]:
    """Operators of ours that are called by their C name; through torch's dispatcher a call costs microseconds more."""
    calls: dict[Any, list[str]] = {}
    if _attends(exported.graph_module) and native_library.serves():
        calls[paged_op.operator()] = [native_library.C_SHIM]
    if native_linear.serves() and siblings.products(exported.graph_module):
        siblings.merge(exported.graph_module)
        calls[native_linear.operator()] = [native_linear.C_SHIM]
    return calls


def _attends(module: torch.fx.GraphModule) -> bool:
    return any(node.target is paged_op.operator() for node in module.graph.nodes)


def _prefer_templates(choices: list[Any]) -> list[Any]:
    """Inductor's own matrix kernels cost the same for 1 and for 9 rows, which verification lives on; others do not.

    With one choice left nothing is timed, so that a busy machine compiles the same code as a quiet one.
    """
    return [choice for choice in choices if "cpp_" in choice.name.lower()] or choices


def _parse_templates_once() -> None:
    """Inductor parses its few kernel templates anew for each of hundreds of kernels: a fifth of all the time."""
    KernelTemplate._template_from_string = staticmethod(functools.cache(KernelTemplate._template_from_string))  # type: ignore[method-assign]


def _try_flags_on_little() -> None:
    """Whether the compiler knows this CPU's instructions inductor tries on torch's headers: half of all the time."""

    def knows(self: VecISA, code: str) -> bool:
        command = [get_cpp_compiler(), *self.build_arch_flags().split(), "-fsyntax-only", "-x", "c++", "-"]
        done = subprocess.run(command, input="#include <immintrin.h>", capture_output=True, text=True, check=False)
        return done.returncode == 0

    VecISA.check_build = knows  # type: ignore[method-assign]


def _leave_threads_open() -> None:
    """Inductor writes the number of threads into the code where it is not the machine's; a step chooses its own."""
    os.cpu_count = torch.get_num_threads


def main(arguments: Sequence[str]) -> None:
    """See the module."""
    tether.end_with_descendants()
    compile_into(Path(arguments[0]), Recipe.from_arguments(*arguments[1:]))


if __name__ == "__main__":
    main(sys.argv[1:])
