"""Has the target write: many texts at once through the engine, each with the laws that it follows."""

import itertools
import queue
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass

import numpy as np
import torch

from forerun.engine import build
from forerun.engine.owner import NOT_FINITE, StepReport
from forerun.errors import ConfigError, SequenceFault
from forerun.training import teacher
from forerun.training.document import Document
from forerun.training.openings import Openings
from forerun.training.writing import Writing

MAX_LEN = 1536
"""Tokens of a text, its prompt included."""

_MIN_ROOM = 16  # tokens that a prompt has to leave
_MAX_REFUSALS = 1000  # prompts in a row that are too long, or texts in a row that fail: then something else is wrong
_QUEUE_WAIT_S = 0.5


@dataclass(frozen=True, slots=True)
class Plan:
    """What to write. done: numbers of the texts that are there already; tell: hears each finished answer's ids."""

    openings: Openings
    done: frozenset[int]
    vocab_size: int
    num_sequences: int
    top_k: int
    seed: int
    tell: Callable[[list[int]], None]


class Generation:
    """Texts 0, 1, 2, … without end, but for those that are done; only `texts` may be used from other threads.

    Logits are collected while a step hands them out and read together when it is over. num_tokens: drawn so far, in
    step_s seconds of forwards and reading_s of reading them.
    """

    def __init__(self, plan: Plan, settings: build.EngineSettings) -> None:
        self._plan = plan
        self._engine = build.build(settings, self._on_step, self._fail)
        self._max_len = min(MAX_LEN, self._engine.max_model_len)
        self._indices = (index for index in itertools.count() if index not in plan.done)
        self._finished: queue.SimpleQueue[Document | Exception] = queue.SimpleQueue()
        self._due: list[tuple[Writing, np.ndarray]] = []
        self._open: set[Writing] = set()
        self._num_failed = 0
        self.num_tokens = 0
        self.step_s = 0.0
        self.reading_s = 0.0

    @property
    def backend(self) -> str:
        """How the target runs."""
        return self._engine.backend

    def texts(self) -> Generator[Document | None]:
        """Texts as they are finished, and None now and then while none is; closing it ends the writing.

        Raises ConfigError where no prompt fits the model, and whatever ended the device's thread.
        """
        self._engine.loop.call(self._begin)
        self._engine.loop.start()
        try:
            while True:
                yield self._next()
        finally:
            self._engine.loop.stop()

    def rest(self) -> list[Document]:
        """What `texts` did not hand out before it was closed: also texts that were still being written, as they are."""
        finished = []
        while not self._finished.empty():
            finished.append(self._next())
        cut_short = [writing.document() for writing in self._open]
        return [document for document in (*finished, *cut_short) if document is not None]

    def _next(self) -> Document | None:
        try:
            result = self._finished.get(timeout=_QUEUE_WAIT_S)
        except queue.Empty:
            return None
        if isinstance(result, Exception):
            raise result
        return result

    def _begin(self) -> None:
        for _ in range(self._plan.num_sequences):
            self._start()

    def _start(self) -> None:
        for index in itertools.islice(self._indices, _MAX_REFUSALS):
            rng = np.random.default_rng([self._plan.seed, index])
            opening = self._plan.openings.open(index, rng)
            if 0 < len(opening.ids) <= self._max_len - _MIN_ROOM:
                writing = Writing(index, opening, self._plan.openings.ends, self._max_len, rng)
                self._open.add(writing)
                self._engine.loop.add(writing.sequence, _Owner(self, writing))
                return
        longest = self._max_len - _MIN_ROOM
        self._fail(ConfigError(f"{_MAX_REFUSALS} prompts in a row are longer than {longest} tokens, which is too long"))

    def _on_step(self, step: StepReport) -> None:
        due, self._due = self._due, []
        self.step_s += step.step_s
        if not due:
            return
        start = time.perf_counter()
        logits = torch.from_numpy(np.stack([row[: self._plan.vocab_size] for _, row in due]))
        temperatures = np.array([writing.temperature for writing, _ in due])
        uniforms = np.array([writing.uniform() for writing, _ in due])
        read = teacher.read(logits, temperatures, uniforms, self._plan.top_k)
        for place, (writing, _) in enumerate(due):
            if not writing.take(int(read.tokens[place]), read.top_ids[place], read.top_probs[place]):
                self._finish(writing)
        self.num_tokens += len(due)
        self.reading_s += time.perf_counter() - start

    def _finish(self, writing: Writing) -> None:
        self._engine.loop.remove(writing.sequence)
        self._open.remove(writing)
        document = writing.document()
        if document is not None:
            self._num_failed = 0
            if not document.is_held_out:
                self._plan.tell(writing.last_turn)
            self._finished.put(document)
        self._start()

    def _fail(self, error: Exception) -> None:
        self._finished.put(error)

    def on_logits(self, writing: Writing, row: np.ndarray) -> None:
        """A step computed the logits `[head size] float32` of the writing's next token."""
        self._due.append((writing, row))

    def on_fault(self, writing: Writing, error: Exception) -> None:
        """A text cannot go on; another takes its place, unless they all fail."""
        self._open.remove(writing)
        self._num_failed += 1
        if self._num_failed >= _MAX_REFUSALS:
            self._fail(error)
        else:
            self._start()


class _Owner:
    """Passes on what the engine tells about one writing."""

    def __init__(self, generation: Generation, writing: Writing) -> None:
        self._generation, self._writing = generation, writing

    def on_logits(self, logits: np.ndarray, step: StepReport) -> None:
        self._generation.on_logits(self._writing, logits[0])

    def on_starved(self, reason: str) -> None:
        """Out of blocks: it goes on when others end."""

    def on_overflow(self) -> None:
        """Nothing can be learnt from it."""
        raise SequenceFault(NOT_FINITE)

    def on_fault(self, error: Exception) -> None:
        self._generation.on_fault(self._writing, error)
