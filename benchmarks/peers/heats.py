"""Who runs side by side: as many peers as fit into memory beside ours; the others in a heat of their own."""

import itertools
from collections.abc import Sequence

from benchmarks.peers.environments import NotInstalled
from benchmarks.peers.job import Job
from benchmarks.peers.models import Models
from benchmarks.peers.system import Failed, PeerMode, System
from benchmarks.peers.turns import Course
from benchmarks.peers.worker import Worker

NEEDED_GB = 4.0  # free before a peer is started: more than any of them takes
WARM_UP_TOKENS = 64
WARM_UP_ANSWERS = 6  # at least, of each size: who adapts to what it sees has seen something then


def run(course: Course, ours: Sequence[System], modes: Sequence[PeerMode], models: Models) -> None:
    """All systems through the course; a peer that cannot be loaded is noted among its failures."""
    warm_up(course, ours)
    waiting, heat = list(modes), 0
    while heat == 0 or (waiting and not course.is_over):
        loaded: list[Worker] = []
        try:
            while waiting and (not loaded or available_gb() > NEEDED_GB):
                if worker := _load(course, waiting.pop(0), models):
                    loaded.append(worker)
                    warm_up(course, [worker])
            course.run([*ours, *loaded], heat)
        finally:
            for worker in loaded:
                worker.close()
        heat += 1
    course.failures.update({mode.name: "out of time before it was loaded" for mode in waiting})


def _load(course: Course, mode: PeerMode, models: Models) -> Worker | None:
    print(f"loading {mode.name}", flush=True)
    try:
        return Worker(mode, models)
    except (Failed, NotInstalled) as error:
        course.failures[mode.name] = str(error)
        print(f"  {mode.name} failed: {error}", flush=True)
        return None


def warm_up(course: Course, systems: Sequence[System]) -> None:
    """Jobs of each size, unmeasured; what fails in them will fail again where it is noted.

    Their prompts lack the first token, so that no cache of prefixes has met the measured ones.
    """
    for system in systems:
        prompts = itertools.cycle(prompt.ids[1:] for prompt in course.prompts)
        for batch in sorted({condition.batch for condition in course.conditions}):
            if batch > system.max_batch:
                continue
            try:
                for _ in range(-(-WARM_UP_ANSWERS // batch)):
                    system.ask(Job(tuple(itertools.islice(prompts, batch)), WARM_UP_TOKENS, 0.0))
            except Failed as error:
                print(f"  {system.name} failed while it warmed up: {error}", flush=True)


def available_gb() -> float:
    """What new processes may take without swapping."""
    with open("/proc/meminfo") as file:
        line = next(line for line in file if line.startswith("MemAvailable"))
    return int(line.split()[1]) / 2**20
