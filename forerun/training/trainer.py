"""The training loop: plain torch, as drafts are usually trained, because there is little more to it than the loss,
a schedule by the clock, and an order of the text that can be taken up again; frameworks bring none of the three.
"""

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from forerun.training.batches import Batch, collate, order
from forerun.training.corpus import Corpus
from forerun.training.head_loss import head_loss
from forerun.training.loss import distance
from forerun.training.stopwatch import Stopwatch
from forerun.training.student import Student
from forerun.training.vocabulary import columns_of

WARMUP = 0.03
"""Share of the time in which the learning rate rises."""

MICRO_TOKENS = 4096
"""Tokens of one forward; a step adds up the gradients of several."""

_BETAS = (0.9, 0.95)
_WEIGHT_DECAY = 0.01
_MAX_NORM = 1.0


@dataclass(frozen=True, slots=True)
class Course:
    """How to train: tokens a step with padding, the learning rate's peak, the seed of the text's order."""

    batch_tokens: int
    learning_rate: float
    seed: int


@dataclass(frozen=True, slots=True)
class StepResult:
    """num_tokens: with padding. The others are means over the step's positions."""

    num_tokens: int
    loss: float
    overlap: float
    agreement: float


class Trainer:
    """One student on the first num_documents of a corpus. Trainers of equal `state` and text go on alike."""

    def __init__(
        self,
        student: Student,
        corpus: Corpus,
        num_documents: int,
        vocab_size: int,
        course: Course,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.student, self._corpus, self._course, self._clock = student, corpus, course, clock
        self._columns_of = columns_of(student.ids, vocab_size)
        self._weights = student.weights()
        self._optimizer = torch.optim.AdamW(self._weights.values(), betas=_BETAS, weight_decay=_WEIGHT_DECAY)
        self._places, self._lengths = np.flatnonzero(~corpus.held_out[:num_documents]), corpus.lengths
        self._micro_tokens = min(course.batch_tokens, MICRO_TOKENS)
        self._epoch, self._cursor = 0, 0
        self._batches = self._order()
        self.num_steps, self.elapsed_s = 0, 0.0

    @property
    def num_epochs(self) -> float:
        """How often the text was gone through."""
        return self._epoch + self._cursor / len(self._batches)

    def train(self, budget_s: float) -> Iterator[StepResult]:
        """Trains until budget_s is spent, earlier starts included; what is done between two steps is counted too."""
        watch = Stopwatch(self._clock)
        while self.elapsed_s < budget_s:
            yield self._step(self.elapsed_s / budget_s)
            self.elapsed_s += watch.lap()

    def state(self) -> dict[str, Any]:
        """All that changes in training."""
        return {
            "weights": {name: weight.detach() for name, weight in self._weights.items()},
            "optimizer": self._optimizer.state_dict(),
            "num_steps": self.num_steps,
            "elapsed_s": self.elapsed_s,
            "epoch": self._epoch,
            "cursor": self._cursor,
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Becomes what `state` was taken from."""
        with torch.no_grad():
            for name, weight in self._weights.items():
                weight.copy_(state["weights"][name])
        self._optimizer.load_state_dict(state["optimizer"])
        self.num_steps, self.elapsed_s = state["num_steps"], state["elapsed_s"]
        self._epoch, self._cursor = state["epoch"], state["cursor"]
        self._batches = self._order()

    def _step(self, progress: float) -> StepResult:
        for group in self._optimizer.param_groups:
            group["lr"] = self._course.learning_rate * rate(progress)
        batches = [self._next() for _ in range(max(1, self._course.batch_tokens // self._micro_tokens))]
        num_positions = sum(len(batch.rows) for batch in batches)
        sums = np.zeros(3)
        for batch in batches:
            totals = head_loss(
                self.student.hidden(batch),
                self.student.head,
                batch.columns,
                batch.probs,
                lambda laws: distance(laws, progress),
            )
            torch.autograd.backward(totals.loss / num_positions)
            sums += [float(part) for part in (totals.loss.detach(), totals.overlap, totals.num_agreeing)]
        torch.nn.utils.clip_grad_norm_(self._weights.values(), _MAX_NORM)
        self._optimizer.step()
        self._optimizer.zero_grad()
        self.num_steps += 1
        return StepResult(sum(batch.input_ids.numel() for batch in batches), *(sums / num_positions).tolist())

    def _next(self) -> Batch:
        if self._cursor >= len(self._batches):
            self._epoch, self._cursor = self._epoch + 1, 0
            self._batches = self._order()
        places = self._batches[self._cursor]
        self._cursor += 1
        documents = [self._corpus.document(place) for place in places]
        return collate(documents, self._columns_of, self.student.device)

    def _order(self) -> list[list[int]]:
        return order(self._places, self._lengths, self._micro_tokens, self._course.seed, self._epoch)


def rate(progress: float) -> float:
    """The learning rate's share of its peak: up in a line, down in half a cosine."""
    if progress < WARMUP:
        return (progress + WARMUP / 10) / (WARMUP * 1.1)
    return 0.5 * (1 + math.cos(math.pi * (progress - WARMUP) / (1 - WARMUP)))
