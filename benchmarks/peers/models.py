"""The bundled pair as other engines read it: plain Hugging Face folders, and the GGUF file it came in."""

import hashlib
import shutil
from dataclasses import dataclass
from pathlib import Path

from safetensors import safe_open
from safetensors.torch import load_file, save_file

from forerun.models.bundled import DRAFT_NAME, gguf_file
from forerun.models.cache_folder import PRIVATE, cache_folder, locked
from forerun.models.resolve import BUNDLED, resolve

EMBEDDING = "model.embed_tokens.weight"
_WEIGHTS, _CONFIG = "model.safetensors", "config.json"


@dataclass(frozen=True)
class Models:
    """Where target and draft lie."""

    target: Path
    draft: Path
    gguf: Path


def bundled_models() -> Models:
    """The bundled pair; what has to be written is written once."""
    target = resolve(BUNDLED)
    return Models(target, plain_draft(resolve(DRAFT_NAME), target), gguf_file())


def plain_draft(draft: Path, target: Path) -> Path:
    """The draft with the target's embedding, head and tokenizer: a folder that needs no other.

    Its head knows the whole vocabulary, as peers take no trimmed one.
    """
    key = hashlib.sha256((draft / _WEIGHTS).read_bytes() + str(target).encode()).hexdigest()[:12]
    folder = cache_folder("peer-models") / f"draft-{key}"
    with locked(folder.with_suffix(".lock")):
        if not folder.is_dir():
            unfinished = folder.with_suffix(".unfinished")
            shutil.rmtree(unfinished, ignore_errors=True)
            unfinished.mkdir(mode=PRIVATE)
            _write(draft, target, unfinished)
            unfinished.rename(folder)
    return folder


def _write(draft: Path, target: Path, folder: Path) -> None:
    weights = load_file(draft / _WEIGHTS)
    if EMBEDDING not in weights:
        with safe_open(target / _WEIGHTS, framework="pt") as file:
            weights[EMBEDDING] = file.get_tensor(EMBEDDING)
    save_file(weights, folder / _WEIGHTS, metadata={"format": "pt"})
    for path in (draft / _CONFIG, *target.iterdir()):
        if not (folder / path.name).exists():
            shutil.copy(path, folder)
