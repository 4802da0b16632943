"""A service's loop in simulated time: one step after another over whatever is there when it begins."""

from collections import deque
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import simpy

from forerun.engine.budget import PrefillBudget
from forerun.planning.site import Engine
from forerun.planning.steps import Batch, Steps

CONTEXT_GRAIN = 32
_FORGETS = 0.02  # of the running means of what other targets ask of a shared draft, at each step


@dataclass(slots=True)
class Work:
    """Steps that a sequence still wants, each of so many rows; done is told with the last of them."""

    num_steps: int
    rows: int
    context_len: float
    done: simpy.Event


@dataclass(slots=True)
class Prompt:
    """A prompt's rows that are not computed yet."""

    left: int
    num_tokens: int
    done: simpy.Event


class Stepper:
    """One service on a device that it may share with another. steps_a_turn: how many it takes before it gives it back.

    share: target replicas that it serves, of which one is simulated: the others ask what that one asks in the mean.
    """

    def __init__(
        self, env: simpy.Environment, steps: Steps, engine: Engine, device: simpy.PriorityResource,
        priority: int = 1, steps_a_turn: int = 1, share: float = 1.0,
    ) -> None:  # fmt: skip
        self._env, self._steps, self._device = env, steps, device
        self._budget = PrefillBudget(engine.max_chunk)
        self._priority, self._steps_a_turn, self._share = priority, steps_a_turn, share
        self._known: dict[Batch, float] = {}
        self._working: list[Work] = []
        self._prompts: deque[Prompt] = deque()
        self._wakes = env.event()
        self._num_awaited = 0
        self._mean_working, self._mean_chunk = 0.0, 0.0
        self.busy_s = 0.0
        env.process(self._run())

    def await_one(self, more: int) -> None:
        """From now on no step begins before that many sequences more (or fewer) have work here."""
        self._num_awaited += more
        self._wake()

    def work(self, num_steps: int, rows: int, context_len: float) -> simpy.Event:
        """Happens when so many steps of a sequence are done; further ones join between two steps."""
        done = self._env.event()
        self._working.append(Work(num_steps, rows, context_len, done))
        self._wake()
        return done

    def prompt(self, num_tokens: int) -> simpy.Event:
        """Happens when the prompt is computed; prompts are served in order of arrival."""
        done = self._env.event()
        self._prompts.append(Prompt(num_tokens, num_tokens, done))
        self._wake()
        return done

    def _wake(self) -> None:
        if not self._wakes.triggered:
            self._wakes.succeed()

    def _run(self) -> Generator[simpy.Event, Any, None]:
        while True:
            while not self._has_all():
                self._wakes = self._env.event()
                yield self._wakes
            with self._device.request(self._priority) as turn:
                yield turn
                working = list(self._working)
                chunks = self._chunks(sum(work.rows for work in working))
                seconds = self._seconds(working, chunks)
                self.busy_s += seconds
                yield self._env.timeout(seconds)
            self._finish(working, chunks)
            yield self._env.timeout(0)  # who was told of a result may ask for more before the next step begins

    def _has_all(self) -> bool:
        return len(self._working) >= self._num_awaited and bool(self._working or self._prompts)

    def _chunks(self, num_rows: int) -> list[tuple[Prompt, int]]:
        left, chunks = self._budget.num_tokens(num_rows), list[tuple[Prompt, int]]()
        for prompt in self._prompts:
            if left <= 0:
                break
            chunks.append((prompt, min(left, prompt.left)))
            left -= prompt.left
        return chunks

    def _seconds(self, working: list[Work], chunks: list[tuple[Prompt, int]]) -> float:
        """Of a turn: its first step takes the prompts along."""
        chunk = sum(rows for _, rows in chunks)
        num_working, prompt_rows = self._shared(len(working), chunk)
        rows = sum(work.rows for work in working) / max(len(working), 1)
        context_len = _near(sum(work.context_len for work in working) / max(len(working), 1))
        done = _near(sum((p.num_tokens - p.left + rows / 2) * rows for p, rows in chunks) / max(chunk, 1))
        first_s = self._priced(Batch(num_working, rows, context_len, prompt_rows, done))
        self._budget.observe(first_s, int(num_working * rows), chunk)
        if self._steps_a_turn == 1 or not working:
            return first_s
        return first_s + (self._steps_a_turn - 1) * self._priced(Batch(num_working, rows, context_len))

    def _priced(self, batch: Batch) -> float:
        if batch not in self._known:
            self._known[batch] = self._steps.seconds(batch)
        return self._known[batch]

    def _shared(self, num_working: int, chunk: int) -> tuple[float, float]:
        self._mean_working += _FORGETS * (num_working - self._mean_working)
        self._mean_chunk += _FORGETS * (chunk - self._mean_chunk)
        if self._share <= 1:
            return (max(self._share * num_working, 1.0) if num_working else 0.0), chunk
        others = self._share - 1
        return num_working + round(others * self._mean_working), chunk + round(others * self._mean_chunk)

    def _finish(self, working: list[Work], chunks: list[tuple[Prompt, int]]) -> None:
        for work in working:
            work.num_steps -= self._steps_a_turn
            if work.num_steps <= 0:
                work.done.succeed()
        finished = {id(work) for work in working if work.num_steps <= 0}
        self._working = [work for work in self._working if id(work) not in finished]
        for prompt, rows in chunks:
            prompt.left -= rows
        while self._prompts and self._prompts[0].left <= 0:
            self._prompts.popleft().done.succeed()


def _near(context_len: float) -> int:
    """The same for contexts that cost the same to a percent or so, so that a step is priced once."""
    return round(context_len / CONTEXT_GRAIN) * CONTEXT_GRAIN
