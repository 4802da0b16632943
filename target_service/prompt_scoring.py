"""Logprobs of a prompt's own tokens, computed in slices so that a long prompt's logits never exist at once."""

import numpy as np

from forerun.engine.sequence import Sequence
from forerun.sampling.logprobs import token_logprobs
from forerun.types import TokenLogprobs

SLICE = 128
"""Rows of logits at a time: 128 x 49k float32 are 25 MB."""


class PromptScoring:
    """Walks a prompt from its first token to its last; `logprobs` has one entry per prompt token after the first."""

    def __init__(self, prompt: list[int], num_logprobs: int, vocab_size: int) -> None:
        self.logprobs: list[TokenLogprobs] = []
        self._prompt = list(prompt)
        self._num_logprobs = num_logprobs
        self._vocab_size = vocab_size

    def request(self, sequence: Sequence) -> bool:
        """Asks for the next slice; False where all are done."""
        done = len(self.logprobs)
        goal = min(done + SLICE, len(self._prompt) - 1)
        if goal == done:
            return False
        sequence.request(goal, goal - done)
        return True

    def take(self, logits: np.ndarray) -> None:
        """Scores the tokens that follow the slice's positions; logits `[rows, ≥ vocab_size] float32`."""
        for row in logits[:, : self._vocab_size]:
            token = self._prompt[len(self.logprobs) + 1]
            self.logprobs.append(token_logprobs(row, token, self._num_logprobs))
