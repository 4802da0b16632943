"""How many CPU cores this process may use."""

import os
from math import ceil
from pathlib import Path

CGROUP = Path("/sys/fs/cgroup")
"""What bounds this process's container, where something does."""


def num_cores() -> int:
    """Cores that it may run on, and no more than its container may keep busy."""
    return quota(CGROUP, len(os.sched_getaffinity(0)))


def quota(folder: Path, unlimited: int) -> int:
    """Cores that the container's CPU time is worth, begun ones counted whole: a limit in Kubernetes hides no core."""
    limit = folder / "cpu.max"
    if not limit.exists():
        return unlimited
    granted, period = limit.read_text().split()
    return unlimited if granted == "max" else min(unlimited, max(1, ceil(int(granted) / int(period))))
