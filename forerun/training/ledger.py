"""The time that was spent on writing text, over all starts."""

import json
from pathlib import Path

from forerun.training.whole_file import replaced


class Ledger:
    """writing_s: seconds; kept in a file by `save`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.writing_s = float(json.loads(path.read_text())["writing_s"]) if path.exists() else 0.0

    def save(self) -> None:
        """Replaces the file at once."""
        with replaced(self._path) as file:
            file.write(f"{json.dumps({'writing_s': self.writing_s})}\n".encode())
