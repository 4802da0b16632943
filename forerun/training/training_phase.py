"""The second phase: the draft learns from what the target wrote."""

import time
from typing import Any

import numpy as np
import torch

from forerun.errors import ConfigError
from forerun.training import checkpoint
from forerun.training.config import DistillConfig
from forerun.training.corpus import Corpus
from forerun.training.display import Display
from forerun.training.evaluation import Figures, evaluate
from forerun.training.export import export
from forerun.training.growth import grow
from forerun.training.interruption import Interruption
from forerun.training.ledger import Ledger
from forerun.training.memory import give_back_freed_memory
from forerun.training.report import Story, line, readme
from forerun.training.student import Student
from forerun.training.surgery import with_layers
from forerun.training.target import Target
from forerun.training.trainer import Course, StepResult, Trainer
from forerun.training.vocabulary import choose_vocabulary, columns_of, coverage, masses

CHECKPOINT = "checkpoint.pt"

MAX_HELD_OUT = 128
"""Texts that are measured on: some seconds of time."""

_SMOOTHING = 0.05


def has_begun(config: DistillConfig) -> bool:
    """Whether there is a checkpoint; from then on the text stays as it is."""
    return (config.out_folder / CHECKPOINT).exists()


class TrainingPhase:
    """A student, its trainer and what they are measured on, taken up where the checkpoint left them."""

    def __init__(
        self, config: DistillConfig, target: Target, layers: tuple[int, ...], corpus: Corpus, ledger: Ledger
    ) -> None:
        self._config, self._target, self._layers = config, target, layers
        self._ledger = ledger
        self._path = config.out_folder / CHECKPOINT
        saved = checkpoint.load(self._path)
        vocab_size = target.text.vocab_size
        self._num_documents = int(saved["num_documents"]) if saved else len(corpus)
        self._num_tokens = corpus.num_scored_of(self._num_documents)
        self._mass = masses(corpus.shards, vocab_size, self._num_tokens)
        held_out = corpus.held_out[: self._num_documents]
        if not held_out.any() or held_out.all():
            raise ConfigError(
                f"{self._num_documents} texts are too few to train and to measure on; raise --tokens or --minutes"
            )
        self._held_out = [corpus.document(int(place)) for place in np.flatnonzero(held_out)[:MAX_HELD_OUT]]
        ids = saved["ids"].numpy() if saved else self._choose_ids()
        self._columns_of = columns_of(ids, vocab_size)
        module = with_layers(target.folder, layers, torch.device(config.device))
        if config.start_folder is not None and not saved:
            grow(module, config.start_folder)
        self._student = Student(module, ids)
        course = Course(config.batch_tokens, config.learning_rate, config.seed)
        self._trainer = Trainer(self._student, corpus, self._num_documents, vocab_size, course)
        if saved:
            self._trainer.load_state(saved)

    def run(self, display: Display, interruption: Interruption) -> Figures:
        """Trains until the time is spent or a stop is asked for; the draft is in its folder afterwards."""
        config, trainer = self._config, self._trainer
        budget_s = 60 * config.minutes - self._ledger.writing_s
        display.phase("the draft learns")
        live, figures = _Live(trainer.elapsed_s), evaluate(self._student, self._held_out, self._columns_of)
        display.note(f"step {trainer.num_steps}: {line(figures)}")
        kept_at = time.monotonic()
        for result in trainer.train(budget_s):
            live.take(result, trainer.elapsed_s)
            display.show(trainer.elapsed_s / budget_s, f"step {trainer.num_steps}, {live.told()}; {line(figures)}")
            if interruption.asked:
                break
            if time.monotonic() - kept_at > 60 * config.checkpoint_minutes:
                figures = self._keep()
                display.note(f"step {trainer.num_steps}: {line(figures)}")
                kept_at = time.monotonic()
        figures = self._keep()
        display.note(f"step {trainer.num_steps}: {line(figures)}; {live.told()}")
        return figures

    def _choose_ids(self) -> Any:
        text = self._target.text
        return choose_vocabulary(self._mass, self._config.vocab, (*text.special_ids, *text.eos_token_ids))

    def _keep(self) -> Figures:
        """Writes the checkpoint and the draft as it is now."""
        figures = evaluate(self._student, self._held_out, self._columns_of)
        content = {"num_documents": self._num_documents, "ids": torch.from_numpy(self._student.ids)}
        checkpoint.save(self._path, content | self._trainer.state())
        folder = self._config.out_folder
        export(self._student, folder, self._target.text.vocab_size, readme(self._story(), figures, folder.name))
        give_back_freed_memory()
        return figures

    def _story(self) -> Story:
        config, trainer = self._config, self._trainer
        return Story(
            target=self._target.name,
            layers=self._layers,
            start=config.start_folder.name if config.start_folder is not None else "",
            num_ids=len(self._student.ids),
            coverage=coverage(self._mass, self._student.ids),
            num_documents=self._num_documents,
            num_tokens=self._num_tokens,
            top_k=config.top_k,
            prompts_share=config.prompts_share if config.prompts else 0.0,
            writing_min=self._ledger.writing_s / 60,
            training_min=trainer.elapsed_s / 60,
            num_steps=trainer.num_steps,
            num_epochs=trainer.num_epochs,
            batch_tokens=config.batch_tokens,
            learning_rate=config.learning_rate,
        )


class _Live:
    """Moving averages of what the steps say, and their speed since this start."""

    def __init__(self, elapsed_s: float) -> None:
        self._overlap = self._agreement = float("nan")
        self._num_tokens, self._start_s, self._elapsed_s = 0, elapsed_s, elapsed_s

    def take(self, result: StepResult, elapsed_s: float) -> None:
        """A step, and the time before it."""
        self._elapsed_s = elapsed_s
        self._overlap = _mixed(self._overlap, result.overlap)
        self._agreement = _mixed(self._agreement, result.agreement)
        self._num_tokens += result.num_tokens

    def told(self) -> str:
        speed = self._num_tokens / max(self._elapsed_s - self._start_s, 1e-9)
        return f"accepts {self._agreement:.2f} greedy, {self._overlap:.2f} at T = 1, {speed:.0f} tokens/s"


def _mixed(old: float, new: float) -> float:
    return new if old != old else (1 - _SMOOTHING) * old + _SMOOTHING * new
