"""Starts the three services, waits for a real token, keeps the draft alive, and stops all of them in order."""

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, Protocol

from forerun.errors import ServiceUnavailable
from forerun.up.child import Child, Service

FIRST_DELAY_S, LONGEST_DELAY_S = 1.0, 30.0
_STABLE_S = 60.0  # a draft that ran this long is restarted as if it never failed


class Display(Protocol):
    """Shows people what happens."""

    def step(self, text: str) -> None:
        """Shows what is waited for now."""
        ...

    def note(self, text: str) -> None:
        """Shows an event that stays readable."""
        ...


class Supervisor:
    """Owns the child processes; after `stop` none is left."""

    def __init__(self, display: Display, log_folder: Path, first_delay_s: float = FIRST_DELAY_S) -> None:
        self._display = display
        self._log_folder = log_folder
        self._first_delay_s = first_delay_s
        self._children: dict[str, Child] = {}

    async def start(self, service: Service) -> Child:
        """Starts one service; the next `stop` ends it."""
        child = await Child.start(service, self._log_folder)
        self._children[service.name] = child
        return child

    async def until(self, ready: Coroutine[Any, Any, Any], what: str, timeout_s: float) -> Any:
        """Waits for `ready`; returns its result.

        Raises ServiceUnavailable, with the child's last words, where a child ends first, and where time runs out.
        """
        self._display.step(what)
        waiting = asyncio.ensure_future(ready)
        ends = {asyncio.ensure_future(child.wait()): child for child in self._children.values()}
        try:
            await asyncio.wait([waiting, *ends], timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
            for end, child in ends.items():
                if end.done():
                    raise ServiceUnavailable(_obituary(child))
            if not waiting.done():
                raise ServiceUnavailable(f"{what}: nothing after {timeout_s:.0f} s; see the logs in {self._log_folder}")
            return waiting.result()
        finally:
            for future in (waiting, *ends):
                future.cancel()

    async def watch(self, restarted: str) -> None:
        """Restarts the service named `restarted` whenever it ends, with growing delays.

        Raises ServiceUnavailable where any other service ends: without it nothing can be served.
        """
        watches = [
            asyncio.ensure_future(self._restart_forever(child) if name == restarted else _must_live(child))
            for name, child in self._children.items()
        ]
        try:
            await asyncio.gather(*watches)
        finally:
            for watch in watches:
                watch.cancel()

    async def stop(self) -> None:
        """Stops the services, those that were started last first."""
        children = list(self._children.values())
        self._children.clear()
        for child in reversed(children):
            await child.stop()

    async def _restart_forever(self, child: Child) -> None:
        delay_s, clock = self._first_delay_s, asyncio.get_running_loop().time
        while True:
            started = clock()
            status = await child.wait()
            delay_s = self._first_delay_s if clock() - started > _STABLE_S else delay_s
            self._display.note(f"{child.service.name} ended with status {status}; restarting it in {delay_s:.3g} s")
            await asyncio.sleep(delay_s)
            delay_s = min(2 * delay_s, LONGEST_DELAY_S)
            child = await self.start(child.service)


async def _must_live(child: Child) -> None:
    await child.wait()
    raise ServiceUnavailable(_obituary(child))


def _obituary(child: Child) -> str:
    words = child.last_words() or "(it printed nothing)"
    return f"{child.service.name} ended with status {child.returncode}; its last lines:\n{words}"
