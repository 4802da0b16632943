"""Where the streams of one sequence leave their replies for the one task that conducts them."""

import asyncio
from collections import deque
from typing import Generic, TypeVar

T = TypeVar("T")


class Mailbox(Generic[T]):
    """A queue with one reader whose wait has a deadline but creates no task: a timer handle wakes it."""

    def __init__(self) -> None:
        self._items: deque[T] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self._loop = asyncio.get_running_loop()

    def put(self, item: T) -> None:
        """Leaves `item` and wakes the reader."""
        self._items.append(item)
        self._wake()

    def take(self) -> T | None:
        """The oldest item, None where there is none."""
        return self._items.popleft() if self._items else None

    async def get(self, deadline: float) -> T | None:
        """The oldest item, waited for until loop time `deadline`; None when that has passed."""
        if not self._items and deadline > self._loop.time():
            self._waiter = self._loop.create_future()
            timer = self._loop.call_at(deadline, self._wake)
            try:
                await self._waiter
            finally:
                timer.cancel()
                self._waiter = None
        return self.take()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
