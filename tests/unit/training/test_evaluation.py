"""Figures mean what they say: the simulated rounds are those that a greedy gateway would run."""

import dataclasses
import math

import numpy as np
import pytest

from forerun.training.evaluation import evaluate, simulate_rounds
from forerun.training.vocabulary import columns_of
from tests.unit.training import texts


def test_rounds_are_walked_as_a_gateway_walks_them():
    # Two kept, one recovered; none kept, one recovered; all four kept, a bonus; the rest is too short for a round.
    agrees = np.array([1, 1, 0, 0, 1, 1, 1, 1, 1, 0, 1], dtype=bool)
    accepted, mean_len = simulate_rounds([agrees], 4)
    assert accepted == pytest.approx((2 / 3, 2 / 3, 1 / 3, 1 / 3))
    assert mean_len == pytest.approx(1 + (2 + 0 + 4) / 3)


def test_a_text_too_short_for_a_round_says_nothing():
    accepted, mean_len = simulate_rounds([np.array([True] * 4)], 4)
    assert all(math.isnan(share) for share in accepted)
    assert math.isnan(mean_len)


def test_the_target_itself_agrees_with_itself(tmp_path, tiny_pair):
    some = [dataclasses.replace(document, temperature=0.0) for document in texts.documents(tiny_pair.target, 40)]
    text = texts.corpus(tmp_path, some)
    student = texts.student(tiny_pair.target, text, layers=(0, 1), size=0)
    figures = evaluate(student, some, columns_of(student.ids, 64))
    kept = np.concatenate([document.top_probs.astype(np.float64).sum(1) for document in some]).mean()
    assert figures.num_positions == 40 * 24
    assert figures.agreement > 0.995
    assert figures.overlap == pytest.approx(kept, abs=2e-3)
    assert figures.mean_len > 4.9
    assert figures.greedy_agreement == figures.agreement


def test_without_greedy_texts_there_are_no_rounds(tmp_path, tiny_pair):
    some = texts.documents(tiny_pair.target, 10)
    student = texts.student(tiny_pair.target, texts.corpus(tmp_path, some))
    figures = evaluate(student, some, columns_of(student.ids, 64))
    assert 0 < figures.overlap < 1
    assert math.isnan(figures.greedy_agreement)
    assert math.isnan(figures.mean_len)
