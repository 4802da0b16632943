"""The clock that waits and speeds are measured with."""

import asyncio
import time
from collections.abc import Callable

import uvloop


def running_clock() -> Callable[[], float]:
    """The running loop's clock in seconds, as fine as the machine has it: uvloop's own stands still within a turn."""
    loop = asyncio.get_running_loop()
    return time.monotonic if isinstance(loop, uvloop.Loop) else loop.time
