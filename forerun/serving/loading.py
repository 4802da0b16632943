"""What a process is there for, built on a thread that nobody waits for: a first start compiles and downloads."""

import asyncio
import os
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")


async def built(build: Callable[[], T], stop: asyncio.Event) -> T:
    """What `build` returns or raises. Where the process is told to stop first, it ends here and now, with status 0.

    Nothing is served yet, and an orderly exit would join the threads that load, which may take minutes.
    """
    future: Future[T] = Future()
    threading.Thread(target=_fulfil, args=(future, build), name="build", daemon=True).start()
    building, stopping = asyncio.wrap_future(future), asyncio.ensure_future(stop.wait())
    await asyncio.wait((building, stopping), return_when=asyncio.FIRST_COMPLETED)
    if stop.is_set():
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)
    stopping.cancel()
    return await building


def _fulfil(future: Future[T], build: Callable[[], T]) -> None:
    try:
        future.set_result(build())
    except BaseException as error:
        future.set_exception(error)
