"""Time that was worked."""

import time
from collections.abc import Callable

LONGEST_LAP_S = 60.0
"""No step takes longer: where one seems to, the process or the machine was asleep."""


class Stopwatch:
    """Measures laps; what a sleep adds to one beyond LONGEST_LAP_S does not count."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._last = clock()

    def lap(self) -> float:
        """Seconds since the last lap."""
        now = self._clock()
        passed, self._last = now - self._last, now
        return min(passed, LONGEST_LAP_S)
