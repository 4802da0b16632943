"""Every system answers the same job in turn: what is compared was measured within the same minute."""

import itertools
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from benchmarks.peers.job import Job, decoding_rate
from benchmarks.peers.prompts import Prompt
from benchmarks.peers.system import Failed, System

NUM_BATCHES = 3  # jobs of one round where a job takes many prompts
MIXED = "mixed"


@dataclass(frozen=True)
class Condition:
    """How a job is run."""

    batch: int
    temperature: float

    def __str__(self) -> str:
        return f"batch {self.batch}, {f'T = {self.temperature:g}' if self.temperature else 'greedy'}"


@dataclass(frozen=True)
class Record:
    """Tokens per second of one system on one job. turn: the same for all systems that took part in it."""

    system: str
    condition: Condition
    turn: str
    category: str
    tokens_per_s: float


@dataclass
class Course:
    """What is run, and what came of it.

    ends: when no further job begins, on the clock of time.monotonic. failures: why a system, or one in some condition,
    has no figure.
    """

    conditions: Sequence[Condition]
    prompts: Sequence[Prompt]
    num_tokens: int
    rounds: int
    ends: float
    records: list[Record] = field(default_factory=list)
    failures: dict[str, str] = field(default_factory=dict)

    @property
    def is_over(self) -> bool:
        """Whether its time has run out."""
        return time.monotonic() > self.ends

    def run(self, systems: Sequence[System], heat: int) -> None:
        """Condition by condition, job by job; the one that begins changes from job to job.

        Stops at `ends` with what it has.
        """
        for condition in self.conditions:
            able = [system for system in systems if system.max_batch >= condition.batch]
            for number, (category, job) in enumerate(self._jobs(condition)):
                if self.is_over:
                    self.failures[f"heat {heat}, {condition}"] = f"out of time after {number} jobs"
                    break
                first = number % len(able)
                for system in able[first:] + able[:first]:
                    self._ask(system, condition, job, f"{heat}.{number}", category)

    def _jobs(self, condition: Condition) -> list[tuple[str, Job]]:
        if condition.batch == 1:
            groups = [[prompt] for prompt in self.prompts]
        else:
            endless = itertools.cycle(self.prompts)
            groups = [list(itertools.islice(endless, condition.batch)) for _ in range(NUM_BATCHES)]
        return [
            (
                group[0].category if condition.batch == 1 else MIXED,
                Job(tuple(prompt.ids for prompt in group), self.num_tokens, condition.temperature),
            )
            for _ in range(self.rounds)
            for group in groups
        ]

    def _ask(self, system: System, condition: Condition, job: Job, turn: str, category: str) -> None:
        name = f"{system.name}, {condition}"
        if name in self.failures:
            return
        try:
            rate = decoding_rate(system.ask(job), job.num_tokens)
        except (Failed, ValueError) as error:
            self.failures[name] = str(error)
            print(f"  {name} failed: {error}", flush=True)
            return
        self.records.append(Record(system.name, condition, turn, category, rate))
        print(f"  {condition}, {category}: {system.name} {rate:.1f} tokens/s", flush=True)
