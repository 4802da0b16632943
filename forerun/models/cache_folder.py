"""The folder where prepared models are kept between runs, private to its user."""

import os
import shutil
import stat
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from forerun.errors import ConfigError

PRIVATE = 0o700
OWN_ALONE = 0o077
"""The umask of whatever writes code into here: many users' own lets their group write."""

_OTHERS_WRITE = 0o022
_UNFINISHED = "unfinished-"


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


def check_trusted(*paths: Path) -> None:
    """Raises ConfigError where anybody but this user and root may write to one of these: code is loaded from there."""
    for path in paths:
        facts = path.stat()
        if facts.st_uid not in (0, os.getuid()):
            raise ConfigError(
                f"{path} belongs to user {facts.st_uid}, not to this one or root, and code is loaded from it: "
                "have another cache folder with $FORERUN_CACHE"
            )
        if facts.st_mode & _OTHERS_WRITE:
            mode = f"{stat.S_IMODE(facts.st_mode):o}"
            raise ConfigError(
                f"{path}: others may write it (mode {mode}), and code is loaded from it: delete it, or, where nobody "
                f"did, chmod go-w {path}"
            )


def unfinished(folder: Path, key: str) -> Path:
    """A new folder in `folder`, for a result that gets a name when it is whole. Its maker holds KEY.lock in there."""
    return Path(tempfile.mkdtemp(prefix=f"{_UNFINISHED}{key}-", dir=folder))


def clear_unfinished(folder: Path, key: str) -> None:
    """Deletes those whose makers were killed. The caller holds KEY.lock."""
    for left in list(folder.glob(f"{_UNFINISHED}*")):
        its_key = left.name.removeprefix(_UNFINISHED).partition("-")[0]
        if its_key == key or not _is_held(folder / f"{its_key}.lock"):
            shutil.rmtree(left, ignore_errors=True)


def _is_held(lock: Path) -> bool:
    import fcntl

    if not lock.exists():
        return False
    with lock.open("a") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False
