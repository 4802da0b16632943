"""What is asked: a few requests of different kinds, or the operator's own."""

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path

from forerun.prompt_file import read_prompts

Turns = tuple[str, ...]

PROMPTS = (
    "Write a Python function that returns the n-th Fibonacci number, with a docstring and three tests.",
    "Explain in simple words why the sky is blue.",
    "Write a Python class for a stack with push, pop and peek methods.",
    "List five tips for someone who plants a garden for the first time.",
    "Write a short story about a robot that learns to paint.",
    "Summarise in two sentences: A market is a place where buyers and sellers meet. Prices rise when many want to buy "
    "and few want to sell; they fall when many want to sell and few want to buy.",
)


def prompts_of(path: str) -> list[Turns]:
    """The prompts in the file, each as its user turns; the built-in ones for no path. Raises ConfigError."""
    return read_prompts(Path(path)) if path else [(prompt,) for prompt in PROMPTS]


def chats(prompts: Sequence[Turns], num_requests: int) -> Iterator[Turns]:
    """The prompts over and over until their turns are `num_requests`; the last may be cut short."""
    left = num_requests
    for turns in itertools.cycle(prompts):
        yield turns[:left]
        left -= len(turns)
        if left <= 0:
            return
