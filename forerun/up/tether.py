"""Becomes another program, which gets a signal when its parent is gone: `tether.py PARENT SIGNAL PROGRAM ARGS…`.

Run as a file, so that nothing else is loaded: a child must not outlive a parent that was killed.
"""

import ctypes
import os
import sys

_PR_SET_PDEATHSIG = 1


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
