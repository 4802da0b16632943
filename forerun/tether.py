"""Becomes another program, which gets a signal when its parent is gone: `tether.py PARENT SIGNAL PROGRAM ARGS…`.

Run as a file, so that nothing of ours is loaded: a child must not outlive a parent that was killed.
"""

import contextlib
import ctypes
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

_PR_SET_PDEATHSIG = 1


def tethered(death_signal: int, *arguments: str) -> list[str]:
    """The command of a Python child of this process that gets death_signal when the thread that starts it is gone."""
    # -P: the folder of this file is no place for imports, its types.py is not the standard one.
    tether = (sys.executable, "-P", __file__, str(os.getpid()), str(int(death_signal)))
    return [*tether, sys.executable, *arguments]


def end_with_descendants() -> None:
    """From now on SIGTERM ends this process and all that it started; Linux only."""
    signal.signal(signal.SIGTERM, _end)


def _end(*_: object) -> None:
    for pid in list(_descendants(os.getpid())):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    os._exit(128 + signal.SIGTERM)


def _descendants(pid: int) -> Iterator[int]:
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):  # it has ended
            for child in map(int, path.read_text().split()):
                yield child
                yield from _descendants(child)


def main(arguments: list[str]) -> None:
    """Never returns: the process is the program afterwards."""
    parent, death_signal, program = int(arguments[0]), int(arguments[1]), arguments[2:]
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, death_signal)
    if os.getppid() != parent:  # it died before the line above
        sys.exit(1)
    os.execv(program[0], program)  # noqa: S606


if __name__ == "__main__":
    main(sys.argv[1:])
