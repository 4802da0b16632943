"""How many replicas a pool should have: more while they are full, fewer when the rest could carry all of it."""

from collections.abc import Sequence

from forerun.cluster.load import Load

BUSY_LOOKS, QUIET_LOOKS = 2, 6
"""Looks in a row that agree: a new replica takes minutes to load, so a burst starts none and a lull ends none."""

FULL, HALF_FULL = 0.9, 0.5
"""Shares of the places of a pool that is held back: from the first on it grows, up to the second it may shrink."""


class Scaler:
    """Counts what looks in a row say; each change starts the count anew. is_held_back: see plan.PoolPlan."""

    def __init__(self, fewest: int, most: int, up_queue: float, down_running: float, is_held_back: bool) -> None:
        self._fewest, self._most = fewest, most
        self._up_queue, self._down_running = up_queue, down_running
        self._is_held_back = is_held_back
        self._num_busy = self._num_quiet = 0

    def look(self, size: int, loads: Sequence[Load | None]) -> int:
        """The size to have from now on; `size` is the present one.

        loads: of the replicas that serve; None for one that did not say.
        """
        said = [load for load in loads if load is not None]
        waiting, running = sum(load.num_waiting for load in said), sum(load.num_running for load in said)
        # One that is wanted and does not serve yet is not helped by one more; one that does not say is not idle.
        all_say = len(said) == len(loads) > 0
        busy = all_say and len(loads) == size and (waiting >= self._up_queue * size or self._taken(said) >= FULL)
        # One that waits for room goes first, and those that serve are all left.
        rest = min(len(loads), size - 1)
        fits = running <= self._down_running * rest and self._taken(said[:rest], said) <= HALF_FULL
        quiet = all_say and waiting == 0 and fits
        self._num_busy = self._num_busy + 1 if busy else 0
        self._num_quiet = self._num_quiet + 1 if quiet else 0
        if self._num_busy >= BUSY_LOOKS and size < self._most:
            return self._changed(size + 1)
        if self._num_quiet >= QUIET_LOOKS and size > self._fewest:
            return self._changed(size - 1)
        return size

    def _taken(self, places: Sequence[Load], open_at: Sequence[Load] | None = None) -> float:
        """The share of the places of some replicas that all open sequences take; 0 where places say nothing."""
        num_places = sum(load.max_sequences for load in places)
        num_open = sum(load.num_open for load in (places if open_at is None else open_at))
        return num_open / num_places if self._is_held_back and num_places > 0 else 0.0

    def _changed(self, size: int) -> int:
        self._num_busy = self._num_quiet = 0
        return size
