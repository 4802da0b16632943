"""The folder where prepared models are kept between runs, private to its user."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

PRIVATE = 0o700


def cache_folder(name: str, environ: Mapping[str, str] = os.environ) -> Path:
    """$FORERUN_CACHE/name, else ~/.cache/forerun/name; it exists afterwards with mode 0700."""
    root = Path(environ.get("FORERUN_CACHE") or Path.home() / ".cache" / "forerun").expanduser().absolute()
    folder = root / name
    for made in (root, folder):
        made.mkdir(mode=PRIVATE, parents=True, exist_ok=True)
    return folder


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Holds an exclusive lock on `path` between processes; the system frees it when its holder dies."""
    import fcntl

    with path.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
