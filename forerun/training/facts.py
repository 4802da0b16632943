"""What a folder was begun with, so that nothing else goes on in it."""

import json
from pathlib import Path
from typing import Any

from forerun.errors import ConfigError


def agree(path: Path, facts: dict[str, Any]) -> None:
    """Keeps `facts` in `path` at the first call. Raises ConfigError where those kept there are others."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
        return
    known = json.loads(path.read_text(encoding="utf-8"))
    for name, value in facts.items():
        if known.get(name) != value:
            raise ConfigError(
                f"{path.parent} was begun with {name} {known.get(name)!r}, now it is {value!r}; choose another folder"
            )
