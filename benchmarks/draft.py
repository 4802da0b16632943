"""How good a draft is: how often it and its target have one favourite, and how far their laws overlap, by category.

    python -m benchmarks.draft [--draft FOLDER] [--prompts FOLDER] [--num-prompts 322] [--tokens 128]

The target answers chat prompts by itself, greedily and at T = 1, and every token of its answers is held against what
the draft would have said there. `agreement` is of the greedy answers (accepted under match), `overlap` the sum of
min(p, q) over those at T = 1 (accepted under rejection), `tokens a round` what greedy rounds of four give. Nothing is
timed, so it needs no quiet machine; two cores take some three seconds a prompt. Prompts over about 1,400 tokens are
left out. Goals: agreement 0.50 (code 0.65), overlap 0.50.
"""

import argparse
import contextlib
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks import report
from benchmarks.peers import prompts
from forerun.engine import torch_setup
from forerun.engine.build import EngineSettings
from forerun.engine.cores import num_cores
from forerun.models.bundled import DRAFT_NAME, NAME
from forerun.models.resolve import resolve
from forerun.training.document import Document
from forerun.training.evaluation import Figures, evaluate
from forerun.training.generation import MAX_LEN, Generation, Plan
from forerun.training.growth import grow, num_layers
from forerun.training.opening import Opening, Turn
from forerun.training.student import Student
from forerun.training.surgery import with_layers
from forerun.training.target import Target, read_target
from forerun.training.vocabulary import columns_of

TOP_K = 48
NUM_SEQUENCES = 64


class Answers:
    """Each prompt in turn, answered once (the openings of forerun.training.generation)."""

    def __init__(
        self, asked: Sequence[prompts.Prompt], temperature: float, num_tokens: int, ends: frozenset[int]
    ) -> None:
        self._asked, self._turn = asked, Turn(num_tokens, temperature)
        self.ends = ends

    def open(self, index: int, rng: np.random.Generator) -> Opening:
        return Opening(self._asked[index % len(self._asked)].ids, (self._turn,))


def answers(target: Target, asked: Sequence[prompts.Prompt], temperature: float, num_tokens: int) -> list[Document]:
    """What the target says to each prompt, with its laws."""
    ends = frozenset(target.text.eos_token_ids)
    plan = Plan(
        Answers(asked, temperature, num_tokens, ends), frozenset(), target.text.vocab_size, NUM_SEQUENCES, TOP_K, 0,
        lambda ids: None,
    )  # fmt: skip
    settings = EngineSettings(
        folder=target.folder, model_id=target.name, num_threads=num_cores(), max_sequences=NUM_SEQUENCES
    )
    found: dict[int, Document] = {}
    with contextlib.closing(Generation(plan, settings).texts()) as texts:
        for document in texts:
            if document is not None and document.index < len(asked):
                found[document.index] = document
            if len(found) == len(asked):
                return [found[index] for index in sorted(found)]
    raise AssertionError("the texts never end")


def student(target: Target, folder: Path) -> tuple[Student, Any]:
    """The draft in `folder`, and the columns of its head."""
    module = with_layers(target.folder, tuple(range(num_layers(folder))), torch.device("cpu"))
    grow(module, folder)
    known = folder / "vocab.npy"
    ids = np.load(known).astype(np.int64) if known.exists() else np.arange(target.text.vocab_size)
    return Student(module, ids), columns_of(ids, target.text.vocab_size)


def by_category(
    draft: tuple[Student, Any], asked: Sequence[prompts.Prompt], documents: Sequence[Document]
) -> dict[str, Figures]:
    """Figures of each category, and of all."""
    groups = defaultdict[str, list[Document]](list)
    for prompt, document in zip(asked, documents, strict=True):
        groups[prompt.category].append(document)
    groups["all"] = list(documents)
    return {name: evaluate(draft[0], group, draft[1]) for name, group in groups.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draft", type=Path, default=resolve(DRAFT_NAME))
    parser.add_argument("--prompts", type=Path, default=prompts.OWN, help="folder of .jsonl: prompt or turns, category")
    parser.add_argument("--num-prompts", type=int, default=1 << 30, help="in turn from each category")
    parser.add_argument("--tokens", type=int, default=128, help="of each answer, at most")
    parser.add_argument("--save", default="draft", help="name of the results; empty saves none")
    arguments = parser.parse_args()
    torch_setup.prepare(num_cores())
    target = read_target(NAME)
    every = prompts.read(arguments.prompts, arguments.num_prompts, target.folder)
    asked = [prompt for prompt in every if len(prompt.ids) + arguments.tokens <= MAX_LEN]
    print(f"{len(asked)} prompts; {len(every) - len(asked)} are too long for answers within {MAX_LEN} tokens")
    draft = student(target, arguments.draft)
    greedy = by_category(draft, asked, answers(target, asked, 0.0, arguments.tokens))
    free = by_category(draft, asked, answers(target, asked, 1.0, arguments.tokens))
    figures = {
        name: {
            "agreement": round(greedy[name].agreement, 3),
            "tokens a round of 4": round(greedy[name].mean_len, 2),
            "overlap": round(free[name].overlap, 3),
            "overlap as served": round(free[name].served_overlap, 3),
        }
        for name in greedy
    }
    for name, found in figures.items():
        print(f"{name:20} {found}")
    if arguments.save:
        report.save(arguments.save, {"prompts": len(asked), **figures})


if __name__ == "__main__":
    main()
