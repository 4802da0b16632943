"""How many replicas a pool should have: more while all are full, fewer when the rest could carry all of it."""

from collections.abc import Sequence

from forerun.cluster.load import Load

BUSY_LOOKS, QUIET_LOOKS = 2, 6
"""Looks in a row that agree: a new replica takes minutes to load, so a burst starts none and a lull ends none."""


class Scaler:
    """Counts what looks in a row say; each change starts the count anew."""

    def __init__(self, fewest: int, most: int, up_queue: float, down_running: float) -> None:
        self._fewest, self._most = fewest, most
        self._up_queue, self._down_running = up_queue, down_running
        self._num_busy = self._num_quiet = 0

    def look(self, size: int, loads: Sequence[Load | None]) -> int:
        """The size to have from now on; `size` is the present one.

        loads: of the replicas that serve; None for one that did not say.
        """
        said = [load for load in loads if load is not None]
        waiting, num_open = sum(load.num_waiting for load in said), sum(load.num_open for load in said)
        num_full = sum(load.is_full for load in said)
        # One that is wanted and does not serve yet is not helped by one more; one that does not say is not idle.
        all_say = len(said) == len(loads) > 0
        busy = all_say and len(loads) == size and (num_full == size or waiting >= self._up_queue * size)
        # One that waits for room goes first, and those that serve are all left.
        rest = min(len(loads), size - 1)
        quiet = all_say and waiting == num_full == 0 and num_open <= self._down_running * rest
        self._num_busy = self._num_busy + 1 if busy else 0
        self._num_quiet = self._num_quiet + 1 if quiet else 0
        if self._num_busy >= BUSY_LOOKS and size < self._most:
            return self._changed(size + 1)
        if self._num_quiet >= QUIET_LOOKS and size > self._fewest:
            return self._changed(size - 1)
        return size

    def _changed(self, size: int) -> int:
        self._num_busy = self._num_quiet = 0
        return size
