"""How much is generated at the same time: what does not fit waits in order, and not for ever."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from forerun.errors import Overloaded, ServiceUnavailable
from gateway.api.limits import Limits

LOOK_S = 1.0


class Places:
    """What one request holds: a place a choice, given back one by one or, with `rest`, all that are left."""

    def __init__(self, num_choices: int, give_back: Callable[[int], None]) -> None:
        self._num_held, self._give_back = num_choices, give_back

    def one(self) -> None:
        """A choice has ended, whether its text was delivered or not."""
        if self._num_held > 0:
            self._num_held -= 1
            self._give_back(1)

    def rest(self) -> None:
        """The request is over."""
        num_held, self._num_held = self._num_held, 0
        self._give_back(num_held)


class Admission:
    """Counts choices. A request of more choices than there are places has all of them to itself.

    There are `capacity` places at the moment (None: for all), unless the limits say how many.
    """

    def __init__(self, limits: Limits, capacity: Callable[[], int | None] = lambda: None) -> None:
        self._limits, self._capacity = limits, capacity
        self._num_choices = self._num_inside = 0
        self._queue: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._idle = asyncio.Event()
        self._idle.set()
        self.draining = False

    @property
    def num_queued(self) -> int:
        """Requests that wait for places."""
        return len(self._queue)

    @asynccontextmanager
    async def admitted(self, num_choices: int, deadline: float) -> AsyncIterator[Places]:
        """Gives places for the choices while the block lasts, or until each is given back.

        Raises ServiceUnavailable while draining, Overloaded where too many wait or `deadline` passes first.
        """
        if self.draining:
            raise ServiceUnavailable("this gateway is shutting down; try again")
        if self._queue or not self._fits(num_choices):
            await self._wait(num_choices, deadline)
        else:
            self._take(num_choices)
        places = Places(num_choices, self._give_back)
        try:
            yield places
        finally:
            self._num_inside -= 1
            places.rest()

    def drain(self) -> None:
        """Refuses what comes from now on, and what still waits."""
        self.draining = True
        for _, place in self._queue:
            if not place.done():
                place.set_exception(ServiceUnavailable("this gateway is shutting down; try again"))
        self._queue.clear()

    async def idle(self) -> None:
        """Returns when nothing is generated or delivered."""
        await self._idle.wait()

    def _fits(self, num_choices: int) -> bool:
        num_places = self._limits.running_choices or self._capacity()
        return self._num_choices == 0 or num_places is None or self._num_choices + num_choices <= num_places

    def _take(self, num_choices: int) -> None:
        self._num_choices += num_choices
        self._num_inside += 1
        self._idle.clear()

    def _give_back(self, num_choices: int) -> None:
        self._num_choices -= num_choices
        self._let_in()

    async def _wait(self, num_choices: int, deadline: float) -> None:
        if len(self._queue) >= self._limits.waiting_requests:
            raise Overloaded(f"{len(self._queue)} requests are waiting already; try again later")
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        entry = (num_choices, place)
        self._queue.append(entry)
        try:
            async with asyncio.timeout_at(deadline):
                await self._place(place)
        except TimeoutError as error:
            self._give_up(entry)
            raise Overloaded(f"no place was free within {self._limits.queue_s:g} s; try again later") from error
        except asyncio.CancelledError:
            self._give_up(entry)
            raise

    async def _place(self, place: asyncio.Future[None]) -> None:
        """Whoever leaves lets the next one in; that targets have come is looked for now and then."""
        while not place.done():
            await asyncio.wait((place,), timeout=LOOK_S)
            if not place.done():
                self._let_in()
        place.result()

    def _give_up(self, entry: tuple[int, asyncio.Future[None]]) -> None:
        """Leaves the queue; a place that was given at the same moment is given back."""
        num_choices, place = entry
        if entry in self._queue:
            self._queue.remove(entry)
        elif place.done() and not place.cancelled() and place.exception() is None:
            self._num_choices -= num_choices
            self._num_inside -= 1
        self._let_in()

    def _let_in(self) -> None:
        while self._queue and self._fits(self._queue[0][0]):
            num_choices, place = self._queue.popleft()
            if not place.done():
                self._take(num_choices)
                place.set_result(None)
        if self._num_inside == 0:
            self._idle.set()
