"""Becomes another program that the system stops when its parent is gone: `python tether.py PARENT PROGRAM ARGS…`.

Run as a file, so that nothing else is loaded: a child must not outlive a parent that was killed.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main(arguments: list[str]) -> None:
    """Never returns: the process is the program afterwards."""
    parent, program = int(arguments[0]), arguments[1:]
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:  # it died before the line above
        sys.exit(1)
    os.execv(program[0], program)  # noqa: S606


if __name__ == "__main__":
    main(sys.argv[1:])
