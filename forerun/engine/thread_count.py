"""How many CPU threads compute a step: as few as make it hardly slower.

A step over few rows is dozens of short parallel regions a layer, and a thread that sleeps between them costs more to
wake than it brings: with a small model one thread is the fastest, and leaves the other cores to the draft, the
gateway and gRPC.
"""

import time
from collections.abc import Callable

import torch

NARROW_ROWS = 32
"""Up to so many rows a step mostly reads weights; over more it computes, which all cores share well."""

TOLERANCE = 1.25
"""How much slower than the fastest the fewest threads may be: others have a use for the cores that are left."""

NUM_TIMES, MAX_S = 8, 2.0
"""Steps timed with each number of threads, of which the least counts; fewer, down to one, where they are slow."""


class ThreadCount:
    """Threads of a narrow step and of all others. `use_for` is called on the thread that computes."""

    def __init__(self, narrow: int, wide: int) -> None:
        self.narrow, self.wide = narrow, wide

    def use_for(self, num_rows: int) -> None:
        """Has torch use as many as a step over num_rows is to have."""
        number = self.narrow if num_rows <= NARROW_ROWS else self.wide
        if torch.get_num_threads() != number:
            torch.set_num_threads(number)


def measured(step: Callable[[], object], num_cores: int, clock: Callable[[], float] = time.perf_counter) -> ThreadCount:
    """By timing a narrow step with 1, 2, 4, … threads in turn, up to one a core."""
    least_s = dict.fromkeys(candidates(num_cores), float("inf"))
    ends = clock() + MAX_S
    for turn in range(NUM_TIMES + 1):
        for number in least_s:
            torch.set_num_threads(number)
            started = clock()
            step()
            if turn:  # the first touches memory that was never read
                least_s[number] = min(least_s[number], clock() - started)
        if turn and clock() > ends:
            break
    torch.set_num_threads(num_cores)
    return ThreadCount(fewest(least_s), num_cores)


def candidates(num_cores: int) -> list[int]:
    """Powers of two up to the number of cores, and that number."""
    return sorted({1 << power for power in range(num_cores.bit_length())} | {num_cores})


def fewest(least_s: dict[int, float]) -> int:
    """The fewest threads whose step is within TOLERANCE of the fastest; least_s: seconds by number of threads."""
    return min(number for number, seconds in least_s.items() if seconds <= TOLERANCE * min(least_s.values()))
