"""How many CPU threads compute a step: as few as make it hardly slower.

A step over few rows is dozens of short parallel regions a layer, and a thread that sleeps between them costs more to
wake than it brings: with a small model one thread is then the fastest, and leaves the other cores to the draft, the
gateway and gRPC. Over many rows a step computes more than it reads, which all cores share well.
"""

import itertools
import resource
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch

WIDTHS = {5: 32, 64: 128, 256: 1 << 30}
"""Rows of the steps that are timed → most rows of a step that has as many threads: a round, a batch, a prompt."""

TOLERANCE = 1.2
"""How much slower than the fastest the fewest threads may be: others have a use for the cores that are left."""

NUM_TIMES, MAX_S = 8, 2.0
"""Steps timed with each number of threads, of which the least counts; fewer, down to one, where they are slow."""

NUM_QUIET = 3
"""So many of them that no other work interrupted: other services start at the same time, and what shares its cores with
them shows nothing of threads. More steps are timed until there are."""


class ThreadCount:
    """Threads of a step by its rows. `use_for` is called on the thread that computes."""

    def __init__(self, by_limit: Mapping[int, int]) -> None:
        """by_limit: most rows of a step → its threads, in rising order."""
        self._by_limit = dict(by_limit)

    def use_for(self, num_rows: int) -> None:
        """Has torch use as many as a step over num_rows is to have."""
        number = next(threads for limit, threads in self._by_limit.items() if num_rows <= limit)
        if torch.get_num_threads() != number:
            torch.set_num_threads(number)

    def __str__(self) -> str:
        return "/".join(str(number) for number in self._by_limit.values())


def num_interruptions() -> int:
    """How often the system took a core from a thread of this process that had a use for it."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw


@dataclass(frozen=True, slots=True)
class Meters:
    """What a step is measured by: seconds, and interruptions that it met."""

    clock: Callable[[], float] = time.perf_counter
    interruptions: Callable[[], int] = num_interruptions


def measured(step: Callable[[int], object], num_cores: int, meters: Meters = Meters()) -> ThreadCount:
    """By timing steps of each width, a call with their number of rows, with 1, 2, 4, … threads up to one a core.

    A model whose narrow steps alone take the time that there is for all has every core for the others.
    """
    clock = meters.clock
    ends, by_limit = clock() + len(WIDTHS) * MAX_S, dict[int, int]()
    for num_rows, limit in WIDTHS.items():
        by_limit[limit] = fewest(_timed(step, num_rows, num_cores, meters)) if clock() < ends else num_cores
    torch.set_num_threads(num_cores)
    return ThreadCount(by_limit)


def _timed(step: Callable[[int], object], num_rows: int, num_cores: int, meters: Meters) -> dict[int, float]:
    """Threads → least seconds of a step, of those that were not interrupted where there are any.

    They take turns, so that a moment of other work does not hit one alone.
    """
    times = {number: list[tuple[bool, float]]() for number in candidates(num_cores)}
    ends = meters.clock() + MAX_S
    for turn in itertools.count():
        for number, of_number in times.items():
            torch.set_num_threads(number)
            started, before = meters.clock(), meters.interruptions()
            step(num_rows)
            seconds = meters.clock() - started
            if turn:  # the first touches memory that was never read
                of_number.append((meters.interruptions() > before, seconds))
        is_clear = all(sum(not cut for cut, _ in of_number) >= NUM_QUIET for of_number in times.values())
        if (turn >= NUM_TIMES and is_clear) or (turn and meters.clock() > ends):
            break
    return {number: min(of_number)[1] for number, of_number in times.items()}


def candidates(num_cores: int) -> list[int]:
    """Powers of two up to the number of cores, and that number."""
    return sorted({1 << power for power in range(num_cores.bit_length())} | {num_cores})


def fewest(least_s: Mapping[int, float]) -> int:
    """The fewest threads whose step is within TOLERANCE of the fastest; least_s: seconds by number of threads."""
    return min(number for number, seconds in least_s.items() if seconds <= TOLERANCE * min(least_s.values()))
