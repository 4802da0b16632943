"""Ctrl-C asks to stop at the next good moment; a second one stops at once."""

import signal
from types import FrameType
from typing import Any, Self


class Interruption:
    """As a context: SIGINT and SIGTERM set `asked`. After the first SIGINT another does what it did before.

    SIGTERM may come twice for one reason (timeout(1) sends it to a process and to its group), so it stays harmless.
    """

    def __init__(self) -> None:
        self.asked = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self._ask)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        self.asked = True
        if number == signal.SIGINT:
            signal.signal(signal.SIGINT, self._before[signal.SIGINT])
