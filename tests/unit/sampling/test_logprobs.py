"""Raw log-softmax, as clients see it."""

import numpy as np
import pytest

from forerun.sampling.logprobs import token_logprobs


def log_softmax(logits):
    exact = logits.astype(np.float64)
    return exact - exact.max() - np.log(np.exp(exact - exact.max()).sum())


def test_logprobs_are_the_log_softmax_and_the_top_comes_first():
    """Case 22."""
    logits = np.random.default_rng(0).normal(scale=4, size=3000).astype(np.float32)
    expected = log_softmax(logits)
    got = token_logprobs(logits, 17, 5)
    assert got.logprob == pytest.approx(expected[17], abs=1e-5)
    assert got.top_ids == tuple(np.argsort(-expected, kind="stable")[:5])
    assert got.top_logprobs == pytest.approx(np.sort(expected)[::-1][:5], abs=1e-5)


def test_equal_logits_come_in_order_of_their_ids():
    assert token_logprobs(np.zeros(6, dtype=np.float32), 4, 3).top_ids == (0, 1, 2)


def test_more_than_the_vocabulary_gives_all_of_it_and_none_gives_none():
    logits = np.array([1, 3, 2], dtype=np.float32)
    assert token_logprobs(logits, 0, 20).top_ids == (1, 2, 0)
    assert token_logprobs(logits, 0, 0).top_ids == ()
