"""How much memory is free for a cache."""

from pathlib import Path

import torch

from forerun.engine.cores import CGROUP


def free_bytes(device: torch.device) -> int:
    """Of the device's; on a CPU of this process's container."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    with open("/proc/meminfo") as file:
        fields = dict(line.split(":", 1) for line in file)
    free = int(fields["MemAvailable"].split()[0]) * 1024
    return min(free, cgroup_free_bytes(CGROUP, free))


def cgroup_free_bytes(folder: Path, unlimited: int) -> int:
    """What the container may still take; file pages that nobody uses count as free, as the kernel gives them up."""
    limit = folder / "memory.max"
    if not limit.exists() or limit.read_text().strip() == "max":
        return unlimited
    stat = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
    used = int((folder / "memory.current").read_text()) - int(stat["inactive_file"])
    return max(0, int(limit.read_text()) - used)
