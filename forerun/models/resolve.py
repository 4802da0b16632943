"""From a model's name, as an operator writes it, to a folder that is safe to load."""

import json
import re
from pathlib import Path

from forerun.errors import ConfigError
from forerun.models.bundled import DRAFT_NAME, NAME, Report, bundled_draft, prepare_bundled
from forerun.models.checksums import SAFETENSORS, TEXT, WEIGHTS, model_files

BUNDLED = "bundled"
_HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")
_HUB_FILES = (*TEXT, SAFETENSORS)
"""Without GGUF files: a repository has one for each size, and one alone is served."""


def resolve(name: str, report: Report | None = None) -> Path:
    """The folder of a model: the bundled one, a local Hugging Face folder, or a hub id (downloaded once).

    Raises ConfigError where there is no such model, where it has no safetensors and no GGUF file, or where it needs
    code of its own.
    """
    if name in (BUNDLED, NAME):
        return prepare_bundled(report)
    folder = bundled_draft() if name == DRAFT_NAME else _local_or_hub(name)
    _check(folder, name)
    return folder


def public_name(name: str) -> str:
    """What clients call the model: the bundled name, the hub id, or the folder's last part."""
    if name == BUNDLED:
        return NAME
    return Path(name).resolve().name if Path(name).expanduser().is_dir() else name


def is_hub_id(name: str) -> bool:
    """Whether `name` is to be looked for on the hub: it reads owner/name, and no such folder is here."""
    return bool(_HUB_ID.fullmatch(name)) and not Path(name).expanduser().is_dir()


def resolve_text(name: str) -> Path:
    """The same folder for who reads text alone; it may lie there without its weights."""
    folder = Path(name).expanduser()
    return folder if folder.is_dir() else resolve(name)


def download(name: str, revision: str, patterns: tuple[str, ...], into: Path) -> None:
    """Puts the matching files of a hub id's commit into a folder. Raises ConfigError where they are not to be had."""
    import huggingface_hub

    try:
        huggingface_hub.snapshot_download(
            name, revision=revision or None, allow_patterns=list(patterns), local_dir=str(into)
        )
    except Exception as error:  # network, absence, permission: all end here alike
        raise ConfigError(f"model {name!r} could not be fetched from the hub: {error}") from error


def _local_or_hub(name: str) -> Path:
    folder = Path(name).expanduser()
    if folder.is_dir():
        return folder
    if is_hub_id(name):
        return _from_hub(name)
    raise ConfigError(f"no model {name!r}: expected {NAME!r}, a model folder, or a hub id such as 'owner/name'")


def _from_hub(name: str) -> Path:
    import huggingface_hub

    try:
        return Path(huggingface_hub.snapshot_download(name, allow_patterns=list(_HUB_FILES)))
    except Exception as error:  # network, absence, permission: all end here alike
        raise ConfigError(f"model {name!r} is no folder here and could not be fetched from the hub: {error}") from error


def _check(folder: Path, name: str) -> None:
    config = folder / "config.json"
    if not config.is_file():
        raise ConfigError(f"model {name!r} has no config.json in {folder}")
    if not model_files(folder, WEIGHTS):
        raise ConfigError(
            f"model {name!r} has neither .safetensors nor .gguf file in {folder}; other weight formats are not loaded"
        )
    try:
        needs_code = "auto_map" in json.loads(config.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ConfigError(f"{config} is not valid JSON: {error}") from error
    if needs_code:
        raise ConfigError(f"model {name!r} needs code of its own (auto_map in config.json), which is never run")
