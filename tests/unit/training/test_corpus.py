"""Texts come back from disk as they were, whole shards or none, and only beside texts of the same target."""

import numpy as np
import pytest

from forerun.errors import ConfigError
from forerun.training import shard
from forerun.training.corpus import Corpus
from forerun.training.document import Document
from tests.unit.training import texts

ORIGIN = {"target": "tiny", "top_k": 16}


@pytest.fixture(scope="module")
def some(tiny_pair):
    return texts.documents(tiny_pair.target, 60, length=6)


def same(ours, theirs):
    arrays = ("tokens", "scored", "top_ids", "top_probs")
    return ours.index == theirs.index and all(np.array_equal(getattr(ours, n), getattr(theirs, n)) for n in arrays)


@pytest.mark.parametrize("vocab_size", [64, 100_000])
def test_documents_come_back_as_they_were(tmp_path, some, vocab_size):
    corpus = Corpus(tmp_path, ORIGIN, vocab_size)
    corpus.add(some[:25])
    corpus.add(some[25:])
    again = Corpus(tmp_path, ORIGIN, vocab_size)
    assert len(again) == 60
    assert all(same(again.document(place), some[place]) for place in (0, 24, 25, 59))
    assert again.num_scored == 360
    assert [again.num_scored_of(count) for count in (0, 1, 30, 60)] == [0, 6, 180, 360]
    assert again.indices() == set(range(60))
    assert again.held_out.tolist() == [document.is_held_out for document in some]


def test_ids_take_two_bytes_where_they_fit(tmp_path, some):
    texts.corpus(tmp_path, some)
    assert np.load(tmp_path / "shard-00000" / "top_ids.npy").dtype == np.uint16


def test_a_shard_that_was_not_finished_does_not_count_and_is_written_again(tmp_path, some, monkeypatch):
    corpus = Corpus(tmp_path, ORIGIN, 64)
    corpus.add(some[:10])
    with monkeypatch.context() as broken:
        broken.setattr(shard.np, "concatenate", lambda parts: (_ for _ in ()).throw(OSError("disk full")))
        with pytest.raises(OSError, match="disk full"):
            corpus.add(some[10:])
    again = Corpus(tmp_path, ORIGIN, 64)
    assert len(again) == 10
    again.add(some[10:])
    assert same(Corpus(tmp_path, ORIGIN, 64).document(59), some[59])


@pytest.mark.parametrize(("name", "value"), [("target", "other"), ("top_k", 8)])
def test_texts_of_another_kind_are_refused_by_name(tmp_path, name, value):
    Corpus(tmp_path, ORIGIN, 64)
    with pytest.raises(ConfigError, match=f"{name} .*{value}"):
        Corpus(tmp_path, {**ORIGIN, name: value}, 64)


def test_texts_of_one_prompt_are_on_one_side_and_a_share_is_held_out():
    law = (np.zeros((1, 2), np.int64), np.zeros((1, 2), np.float16))

    def document(prompt, answer):
        return Document(0, 0.0, np.array([*prompt, answer]), np.array([False] * len(prompt) + [True]), *law)

    sides = {prompt: {document((prompt, 9), answer).is_held_out for answer in range(5)} for prompt in range(2000)}
    assert all(len(side) == 1 for side in sides.values())
    assert 30 < sum(side == {True} for side in sides.values()) < 100
