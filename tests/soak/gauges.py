"""What a process holds: memory, open files, threads; and what the services hold for their sequences."""

import asyncio
import re
import statistics
import time
from pathlib import Path

import httpx

from tests.support.wire import clients

IDLE_S = 20.0


def held(process):
    """Bytes of memory of its own, open files and threads of a Process."""
    proc = Path("/proc") / str(process.popen.pid)
    fields = dict(line.split(":", 1) for line in (proc / "status").read_text().splitlines() if ":" in line)
    return {
        "memory": 1024 * int(fields["RssAnon"].split()[0]),
        "files": len(list((proc / "fd").iterdir())),
        "threads": int(fields["Threads"]),
    }


def growth(samples):
    """The last fifth's median over the second fifth's: the first is for warming up."""
    fifth = len(samples) // 5
    if fifth == 0:
        return float("nan")
    return statistics.median(samples[-fifth:]) / statistics.median(samples[fifth : 2 * fifth])


async def left_after(house, patience_s=IDLE_S):
    """What is still held by the time that the load is over for patience_s, by name; {} as soon as nothing is."""
    ends = time.monotonic() + patience_s
    while (left := await _left(house)) and time.monotonic() < ends:
        await asyncio.sleep(0.2)
    return left


async def _left(house):
    left = {}
    for target, draft in zip(house.services[:2], house.services[2:], strict=True):
        async with clients(target.address, draft.address) as peers:
            for peer in peers:
                info = await peer.info()
                if info.num_running or info.num_free_blocks < info.num_blocks:
                    num_blocks = info.num_blocks - info.num_free_blocks
                    left[peer.name] = f"{info.num_running} sequences, {num_blocks} blocks"
    async with httpx.AsyncClient() as http:
        page = (await http.get(f"{house.gateway.url}/metrics")).text
    for name in ("forerun_num_requests_running", "forerun_num_requests_waiting"):
        value = float(re.search(rf"^{name} (\S+)", page, re.MULTILINE).group(1))
        if value:
            left[name] = value
    return left
