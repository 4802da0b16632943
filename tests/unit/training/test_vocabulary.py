"""The draft's head knows what the target says most, and every special id."""

import numpy as np
import pytest

from forerun.training.vocabulary import choose_vocabulary, columns_of, coverage, masses
from tests.unit.training import texts


def test_the_heaviest_ids_and_the_special_ones_are_chosen():
    mass = np.array([0.0, 0.1, 5.0, 3.0, 0.2, 4.0])
    assert choose_vocabulary(mass, 4, (0, 1)).tolist() == [0, 1, 2, 5]


def test_equal_ids_are_taken_in_order():
    assert choose_vocabulary(np.zeros(10), 3, (9,)).tolist() == [0, 1, 9]


@pytest.mark.parametrize("size", [0, 6, 7])
def test_a_large_enough_vocabulary_is_all_of_it(size):
    assert choose_vocabulary(np.zeros(6), size, ()).tolist() == list(range(6))


def test_masses_are_sums_of_the_laws(tmp_path, tiny_pair):
    some = texts.documents(tiny_pair.target, 20)
    mass = masses(texts.corpus(tmp_path, some).shards, 64)
    expected = np.zeros(64)
    for document in some:
        np.add.at(expected, document.top_ids, document.top_probs.astype(np.float64))
    assert np.allclose(mass, expected)
    assert coverage(mass, np.arange(64)) == pytest.approx(1.0)
    assert 0.5 < coverage(mass, choose_vocabulary(mass, 32, ())) < 1


def test_masses_of_the_first_laws_are_those_before_more_was_written(tmp_path, tiny_pair):
    some = texts.documents(tiny_pair.target, 20)
    corpus = texts.corpus(tmp_path, some[:8])
    before = masses(corpus.shards, 64)
    corpus.add(some[8:])
    assert np.array_equal(masses(corpus.shards, 64, corpus.num_scored_of(8)), before)
    first = texts.corpus(tmp_path / "first", some[:3])
    assert np.array_equal(masses(corpus.shards, 64, corpus.num_scored_of(3)), masses(first.shards, 64))


def test_columns_lead_back_to_ids():
    columns = columns_of(np.array([1, 4]), 6)
    assert columns.tolist() == [-1, 0, -1, -1, 1, -1]
