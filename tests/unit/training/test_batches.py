"""Batches hold every document once an epoch, with little padding, in an order that can be taken up again."""

import numpy as np
import torch

from forerun.training.batches import collate, order
from forerun.training.vocabulary import columns_of
from tests.unit.training import texts

PLACES = np.arange(5000)
LENGTHS = np.random.default_rng(0).integers(20, 500, 5000)


def test_every_document_comes_once_in_batches_of_bounded_size():
    batches = order(PLACES, LENGTHS, 4096, seed=0, epoch=0)
    assert sorted(place for batch in batches for place in batch) == PLACES.tolist()
    assert max(len(batch) * LENGTHS[batch].max() for batch in batches) <= 4096


def test_little_of_a_batch_is_padding():
    batches = order(PLACES, LENGTHS, 4096, seed=0, epoch=0)
    padded = sum(len(batch) * LENGTHS[batch].max() for batch in batches)
    assert LENGTHS.sum() > 0.95 * padded


def test_a_document_longer_than_a_batch_stands_alone():
    assert order(np.arange(3), np.array([50, 9000, 60]), 4096, seed=0, epoch=0).count([1]) == 1


def test_epochs_differ_and_each_is_the_same_again():
    first = order(PLACES, LENGTHS, 4096, seed=0, epoch=0)
    assert first == order(PLACES, LENGTHS, 4096, seed=0, epoch=0)
    assert first != order(PLACES, LENGTHS, 4096, seed=0, epoch=1)
    assert first != order(PLACES, LENGTHS, 4096, seed=1, epoch=0)


def test_rows_point_at_the_token_before_each_scored_one(tiny_pair):
    short, long = texts.documents(tiny_pair.target, 1, length=3)[0], texts.documents(tiny_pair.target, 1, length=5)[0]
    batch = collate([short, long], columns_of(np.arange(64), 64), torch.device("cpu"))
    assert batch.input_ids.shape == (2, 8)
    assert batch.rows.tolist() == [2, 3, 4, 10, 11, 12, 13, 14]
    flat = batch.input_ids.flatten()
    assert [flat[row + 1].item() for row in batch.rows] == [*short.tokens[3:], *long.tokens[3:]]


def test_neighbours_in_a_batch_change_nothing(tmp_path, tiny_pair):
    some = texts.documents(tiny_pair.target, 4, length=9) + texts.documents(tiny_pair.target, 1, length=20, seed=1)
    student = texts.student(tiny_pair.target, texts.corpus(tmp_path, some))
    columns = columns_of(student.ids, 64)
    with torch.no_grad():
        together = student.hidden(collate(some, columns, student.device))
        alone = student.hidden(collate(some[:1], columns, student.device))
    assert torch.allclose(together[:9], alone, atol=1e-5)
