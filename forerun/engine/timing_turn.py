"""One service of a machine at a time times its steps: two that do so at once find every second thread slow."""

import contextlib
import fcntl
import logging
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

log = logging.getLogger(__name__)

MAX_WAIT_S = 30.0
"""After which it is not waited for any longer: a turn matters less than a start."""

_LOOK_S = 0.05


@contextlib.contextmanager
def taken(max_wait_s: float = MAX_WAIT_S) -> Iterator[None]:
    """Begins when no other service of this user has its turn, at latest after max_wait_s. Never fails."""
    path = Path(tempfile.gettempdir()) / f"forerun-timing-{os.getuid()}"
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        log.info("steps are timed without a turn: %s", error)
        yield
        return
    try:
        if not _waited(handle, max_wait_s):
            log.warning("steps are timed beside another service's, after %.0f s", max_wait_s)
        yield
    finally:
        os.close(handle)


def _waited(handle: int, max_wait_s: float) -> bool:
    ends = time.monotonic() + max_wait_s
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > ends:
                return False
            time.sleep(_LOOK_S)
        except OSError:
            return False
        else:
            return True
