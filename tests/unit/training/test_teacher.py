"""What is drawn from the target has its law, and what is kept of the law is true."""

import numpy as np
import pytest
import torch
from scipy import stats

from forerun.training.teacher import read

V, K = 64, 8
FALSE_ALARM = 1e-6


def logits(rows, seed=0):
    return torch.randn(rows, V, generator=torch.Generator().manual_seed(seed)) * 2


def drawn(row, temperature, num_draws):
    rows = row.repeat(num_draws, 1)
    uniforms = np.random.default_rng(1).random(num_draws)
    return read(rows, np.full(num_draws, temperature), uniforms, K).tokens


def p_value(tokens, law):
    """Of the chi-square test that the tokens have this law; rare ids are counted together."""
    counts = np.bincount(tokens, minlength=V)
    common = law * len(tokens) >= 5
    seen = np.append(counts[common], counts[~common].sum())
    expected = np.append(law[common], law[~common].sum()) * len(tokens)
    return stats.chisquare(seen, expected * seen.sum() / expected.sum()).pvalue


@pytest.mark.parametrize("temperature", [0.7, 1.0])
def test_draws_have_the_targets_law(temperature):
    """False alarm 1e-6. The control: the law at another temperature is found out."""
    row = logits(1)
    tokens = drawn(row, temperature, 20_000)
    assert p_value(tokens, (row[0] / temperature).softmax(0).double().numpy()) > FALSE_ALARM
    assert p_value(tokens, (row[0] / (temperature + 0.15)).softmax(0).double().numpy()) < FALSE_ALARM


def test_draws_beyond_the_kept_tokens_happen():
    row = logits(1)
    kept = set(row[0].topk(K).indices.tolist())
    beyond = [token for token in drawn(row, 1.0, 20_000).tolist() if token not in kept]
    mass = 1 - row[0].softmax(0).topk(K).values.sum().item()
    assert len(beyond) == pytest.approx(20_000 * mass, rel=0.1)
    assert len(set(beyond)) > K


def test_temperature_zero_takes_the_likeliest():
    rows = logits(5)
    assert read(rows.clone(), np.zeros(5), np.full(5, 0.99), K).tokens.tolist() == rows.argmax(1).tolist()


def test_what_is_kept_are_the_likeliest_and_their_probabilities():
    rows = logits(6)
    found = read(rows.clone(), np.array([0.0, 0.7, 1.0] * 2), np.full(6, 0.5), K)
    probs, ids = rows.softmax(1).topk(K, dim=1)
    assert np.array_equal(found.top_ids, ids.numpy())
    assert np.allclose(found.top_probs.astype(np.float64), probs.numpy(), rtol=1e-3)


def test_a_vocabulary_smaller_than_what_is_kept_is_kept_whole():
    assert read(logits(2), np.ones(2), np.full(2, 0.3), 100).top_ids.shape == (2, V)
