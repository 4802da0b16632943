"""How many cases are tried, and what they must leave behind: nothing."""

import asyncio
import os

import httpx
from hypothesis import HealthCheck, settings

from tests.support.wire import clients

CASES = int(os.environ.get("FORERUN_FUZZ_CASES", "0"))
"""A property's number of cases; 0 is each one's own small number, the same cases every time."""

ANSWER_S = 30.0  # nothing that is asked stays without an answer for longer
tried, served = {}, {}


def cases(few):
    """The settings of a property."""
    return settings(
        max_examples=CASES or few,
        derandomize=not CASES,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        print_blob=True,
    )


def count(name, was_served=False):
    """One more case of this name was tried; whether it was served and not refused."""
    tried[name] = tried.get(name, 0) + 1
    served[name] = served.get(name, 0) + was_served


async def nothing_is_left(gateway, target, draft):
    """Returns when no block and no request is held; fails where that takes long."""
    async with clients(target.address, draft.address) as peers:
        async with asyncio.timeout(10):
            for peer in peers:
                while not _is_free(info := await peer.info()):
                    await asyncio.sleep(0.05)
                assert info.num_blocks > 0
            while await _num_requests(gateway.url):
                await asyncio.sleep(0.05)


def _is_free(info):
    return info.num_free_blocks == info.num_blocks and not info.num_running and not info.num_waiting


async def _num_requests(url):
    async with httpx.AsyncClient(base_url=url) as http:
        lines = (await http.get("/metrics")).text.splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith("forerun_num_requests_"))
