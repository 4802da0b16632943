"""What a model's folder must hold: the lines of `sha256sum`, one for each file that is loaded."""

import hashlib
from collections.abc import Mapping
from pathlib import Path

from forerun.errors import ConfigError

SAFETENSORS = "*.safetensors"
WEIGHTS = (SAFETENSORS, "*.gguf")
TEXT = ("*.json", "*.jinja", "vocab.npy")

_DIGITS = 64


def model_files(folder: Path, patterns: tuple[str, ...]) -> list[Path]:
    """The files of `folder` itself that match, by name; hidden ones and folders are no part of a model."""
    found = {path for pattern in patterns for path in folder.glob(pattern)}
    return sorted(path for path in found if path.is_file() and not path.name.startswith("."))


def digests(folder: Path, patterns: tuple[str, ...]) -> dict[str, str]:
    """File name → SHA-256 in hex, of every file that matches."""
    known = {}
    for path in model_files(folder, patterns):
        with path.open("rb") as file:
            known[path.name] = hashlib.file_digest(file, "sha256").hexdigest()
    return known


def read_list(path: Path, patterns: tuple[str, ...]) -> dict[str, str]:
    """The entries of a list whose names match. Raises ConfigError for a list that is absent, malformed or empty."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"no list of checksums at {path}: {error}") from error
    entries = dict(_entry(line, path) for line in lines if line.strip() and not line.startswith("#"))
    wanted = {name: digest for name, digest in entries.items() if any(Path(name).match(part) for part in patterns)}
    if not wanted:
        raise ConfigError(f"{path} names no file of a model; `forerun fetch` without --checksums prints such a list")
    return wanted


def write_list(known: Mapping[str, str]) -> str:
    """The list that `read_list` reads, and `sha256sum --check` too."""
    return "".join(f"{digest}  {name}\n" for name, digest in sorted(known.items()))


def difference(found: Mapping[str, str], wanted: Mapping[str, str]) -> str:
    """ "" where both are equal, else which files are missing, changed or not on the list."""
    missing = sorted(wanted.keys() - found.keys())
    unlisted = sorted(found.keys() - wanted.keys())
    changed = sorted(name for name in found.keys() & wanted.keys() if found[name] != wanted[name])
    told = (("missing", missing), ("changed", changed), ("not on the list", unlisted))
    return "; ".join(f"{what}: {', '.join(names)}" for what, names in told if names)


def _entry(line: str, path: Path) -> tuple[str, str]:
    digest, _, name = line.partition(" ")
    name = name.strip().removeprefix("*")
    if len(digest) != _DIGITS or not set(digest) <= set("0123456789abcdef") or name != Path(name).name:
        raise ConfigError(f"{path}: {line[:100]!r} is no line of sha256sum for a file of the folder itself")
    return name, digest
