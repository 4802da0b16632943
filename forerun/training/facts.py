"""What a folder was begun with, so that nothing else goes on in it."""

import json
from pathlib import Path
from typing import Any

from forerun.errors import ConfigError
from forerun.training.whole_file import replaced


def agree(path: Path, facts: dict[str, Any]) -> None:
    """Keeps `facts` in `path` at the first call. Raises ConfigError where those kept there are others.

    Those that were not kept then, by an earlier version, are not asked about.
    """
    if not path.exists():
        _write(path, facts)
        return
    for name, known in _read(path).items():
        if name in facts and facts[name] != known:
            raise ConfigError(
                f"{path.parent} was begun with {name} {known!r}, now it is {facts[name]!r}; choose another folder"
            )


def _write(path: Path, facts: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with replaced(path) as file:
        file.write(f"{json.dumps(facts, indent=1)}\n".encode())


def _read(path: Path) -> dict[str, Any]:
    try:
        known = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ConfigError(f"{path} cannot be read ({error}); delete it to begin anew there") from error
    if not isinstance(known, dict):
        raise ConfigError(f"{path} cannot be read; delete it to begin anew there")
    return known
