"""Whether anything of ours works while nobody asks it to."""

import os
import time
from pathlib import Path

SECONDS = 2.0


def busy_cores() -> float:
    """How many cores this process's descendants keep busy, over SECONDS in which it asks nothing of them."""
    before = _ticks()
    time.sleep(SECONDS)
    after = _ticks()
    spent = sum(ticks - before.get(pid, 0) for pid, ticks in after.items())
    return round(spent / os.sysconf("SC_CLK_TCK") / SECONDS, 3)


def _ticks() -> dict[int, int]:
    """CPU time of each descendant, in clock ticks."""
    parents, ticks = dict[int, int](), dict[int, int]()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            # The command's name stands in parentheses and may hold anything.
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        pid = int(stat.parent.name)
        parents[pid], ticks[pid] = int(fields[1]), int(fields[11]) + int(fields[12])
    family = {os.getpid()}
    while grown := {pid for pid, parent in parents.items() if parent in family} - family:
        family |= grown
    return {pid: ticks[pid] for pid in family - {os.getpid()} if pid in ticks}
