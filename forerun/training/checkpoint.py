"""What training goes on from after a stop."""

from pathlib import Path
from typing import Any

import torch

from forerun.errors import ConfigError
from forerun.training.whole_file import replaced


def save(path: Path, content: dict[str, Any]) -> None:
    """Afterwards `path` holds `content`; a crash before that leaves what it held."""
    with replaced(path) as file:
        torch.save(content, file)


def load(path: Path) -> dict[str, Any] | None:
    """What was saved, None where nothing was. Raises ConfigError for a file that cannot be read."""
    if not path.exists():
        return None
    try:
        content: dict[str, Any] = torch.load(path, weights_only=True, map_location="cpu")
    except Exception as error:  # whatever a broken file makes the reader raise
        raise ConfigError(f"{path} cannot be read ({error}); delete it to train anew on the same text") from error
    return content
