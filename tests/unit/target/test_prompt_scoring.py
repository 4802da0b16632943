"""What a prompt's own tokens are worth, slice by slice."""

import numpy as np
import pytest

from forerun.engine.sequence import Sequence
from target_service.prompt_scoring import SLICE, PromptScoring

VOCAB_SIZE = 8


def test_padding_columns_count_for_nothing_in_any_slice():
    """Case 1."""
    rng = np.random.default_rng(1)
    prompt = rng.integers(VOCAB_SIZE, size=SLICE + 10).tolist()
    logits = rng.normal(size=(len(prompt) - 1, VOCAB_SIZE + 2)).astype(np.float32)
    expected = logits[:, :VOCAB_SIZE].astype(np.float64)
    expected -= np.log(np.exp(expected).sum(1, keepdims=True))
    logits[:, VOCAB_SIZE:] = 50

    scoring, sequence, done = PromptScoring(prompt, 2, VOCAB_SIZE), Sequence(prompt), 0
    while scoring.request(sequence):
        scoring.take(logits[done : done + sequence.num_logits])
        done += sequence.num_logits

    assert len(scoring.logprobs) == done == len(prompt) - 1 > SLICE
    for row, token, one in zip(expected, prompt[1:], scoring.logprobs, strict=True):
        assert one.logprob == pytest.approx(row[token], abs=1e-5)
        assert max(one.top_ids) < VOCAB_SIZE
