"""Models compiled for this machine: looked up in the cache folder, compiled in a process of its own where missing."""

import hashlib
import json
import logging
import os
import platform
import shutil
import signal
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from forerun.engine import huge_pages, native_code
from forerun.engine.attention import native_library
from forerun.engine.forward import Forward
from forerun.engine.graph_library import LIBRARY, GraphLibrary
from forerun.engine.model import DTYPES, LoadedModel, read_config, read_head_ids
from forerun.engine.quant import bf16, native_linear
from forerun.errors import ConfigError
from forerun.models.cache_folder import (
    OWN_ALONE,
    PRIVATE,
    cache_folder,
    check_trusted,
    clear_unfinished,
    locked,
    unfinished,
)
from forerun.models.checksums import WEIGHTS, model_files
from forerun.tether import tethered

log = logging.getLogger(__name__)

PRECISIONS = ("bf16", "int8", "int4")
"""Those that gain from it; fp32 is the reference and stays as transformers wrote it."""

MIN_SIZE = 2
"""Compiled graphs take any number of rows from here on: one row would be a graph of its own."""

PACKAGE, FACTS = "model.pt2", "facts.json"
_COMPILATION = 3  # raise it when what compilation produces changes
_COMPILED_WITH = ("torch", "transformers")


_KERNELS: dict[str, Callable[[], object]] = {
    "forerun::packed_linear": native_linear.register,
    "forerun::paged_attention": native_library.load,
}


@dataclass(frozen=True, slots=True)
class Recipe:
    """What is compiled: a model folder in a precision for at most so many threads."""

    folder: Path
    precision: str
    num_threads: int
    embedding_from: Path | None = None

    def arguments(self) -> list[str]:
        """The command line of forerun.engine.aot; see `from_arguments`."""
        return [str(self.folder), self.precision, str(self.num_threads), str(self.embedding_from or "")]

    @classmethod
    def from_arguments(cls, folder: str, precision: str, num_threads: str, embedding_from: str) -> "Recipe":
        return cls(Path(folder), precision, int(num_threads), Path(embedding_from) if embedding_from else None)

    def key(self) -> str:
        """Changes with whatever the result depends on: weights, versions, threads, CPU, and whether our kernel runs."""
        facts = [
            _COMPILATION,
            self.precision,
            self.num_threads,
            [version(package) for package in _COMPILED_WITH],
            platform.machine(),
            native_code.cpu_flags(),
            native_library.LAYOUT if native_library.serves() else "without the attention kernel",
            [_content(folder) for folder in (self.folder, self.embedding_from) if folder is not None],
        ]
        if bf16.pays() if self.precision == "bf16" else native_linear.serves():
            facts.append(native_linear.LAYOUT)
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:20]


class CompiledForward:
    """A forward that was compiled ahead; see forward.Forward. Shorter batches than it takes are padded."""

    def __init__(self, file: Path) -> None:
        is_library = file.name == LIBRARY
        self._call = GraphLibrary(file) if is_library else _padding(torch._inductor.aoti_load_package(str(file)))

    def __call__(
        self, input_ids: torch.Tensor, positions: torch.Tensor, logit_rows: torch.Tensor, step: torch.Tensor
    ) -> torch.Tensor:
        return self._call(input_ids, positions, logit_rows, step)[: len(logit_rows)]


def _padding(graph: Callable[..., torch.Tensor]) -> Forward:
    """The graph with what GraphLibrary does by itself."""

    def forward(
        input_ids: torch.Tensor, positions: torch.Tensor, logit_rows: torch.Tensor, step: torch.Tensor
    ) -> torch.Tensor:
        return graph(padded(input_ids), padded(positions), padded(logit_rows), step)

    return forward


def padded(numbers: torch.Tensor) -> torch.Tensor:
    """At least MIN_SIZE of them."""
    missing = MIN_SIZE - len(numbers)
    return torch.nn.functional.pad(numbers, (0, missing)) if missing > 0 else numbers


def can_compile() -> bool:
    """Whether there is a C++ compiler."""
    return native_code.find_compiler(os.environ) is not None


def load(recipe: Recipe) -> LoadedModel:
    """Loads the compiled model; the first time it is compiled, which takes minutes.

    Raises ConfigError for a model that cannot be compiled, with what the compiler said, and where others may write to
    what was compiled.
    """
    folder = compiled_folder(recipe)
    if not folder.is_dir():
        with locked(folder.parent / f"{folder.name}.lock"):
            if not folder.is_dir():
                _compile_into(folder, recipe)
    check_trusted(folder.parent, folder, *folder.iterdir())
    facts = json.loads((folder / FACTS).read_text())
    load_kernels(facts["calls"])
    forward = CompiledForward(folder / facts["file"])
    huge_pages.ask()
    return LoadedModel(
        forward,
        read_config(recipe.folder, recipe.precision),
        DTYPES[recipe.precision],
        read_head_ids(recipe.folder),
        facts["head_size"],
    )


def load_kernels(operators: Sequence[str]) -> None:
    """Loads the kernels that a graph calls in C, which must be there before the graph is loaded."""
    for name in operators:
        _KERNELS[name]()


def compiled_folder(recipe: Recipe) -> Path:
    """Where the compiled model lies or will lie."""
    return cache_folder("compiled") / recipe.key()


def _compile_into(folder: Path, recipe: Recipe) -> None:
    """In a process of its own, whose memory is given back, and which ends with this one."""
    log.info("compiling the model for this CPU, once", extra={"model": recipe.folder.name})
    clear_unfinished(folder.parent, folder.name)
    made = unfinished(folder.parent, folder.name)
    try:
        command = tethered(signal.SIGTERM, "-m", "forerun.engine.aot", str(made), *recipe.arguments())
        environ = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(made / "inductor")}
        done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False, umask=OWN_ALONE)
        if done.returncode:
            why = _last_line(done.stderr)
            raise ConfigError(f"{recipe.folder.name} cannot be compiled (--compile off runs it uncompiled): {why}")
        shutil.rmtree(made / "inductor", ignore_errors=True)
        made.chmod(PRIVATE)
        made.rename(folder)
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _last_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1].strip() if lines else "it said nothing"


def _content(folder: Path) -> list[Any]:
    """What tells one checkpoint from another, without reading gigabytes."""
    config = (folder / "config.json").read_text()
    files = model_files(folder, (*WEIGHTS, "vocab.npy"))
    return [config, [(path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in files]]
