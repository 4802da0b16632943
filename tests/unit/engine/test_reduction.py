"""Rows whose owner reads their best column alone come as that, others whole, and the verdicts are the same."""

import numpy as np
import pytest
import torch

from forerun.engine import reduction
from forerun.engine.logits import Best, are_finite
from forerun.engine.runner import Runner
from forerun.types import Proposal, SamplingParams, Verification
from target_service.verifier import Verifier
from tests.parity.paged import Paged, load, random_tokens

HEAD, VOCAB = 8, 6


def logits(num_rows, seed=0):
    rows = torch.randn(num_rows, HEAD, generator=torch.Generator().manual_seed(seed))
    rows[:, VOCAB:] = 50  # padding is larger than any token
    return rows


def test_each_sequence_gets_what_it_reads():
    rows = logits(6)
    step = reduction.reduced(rows, [VOCAB, VOCAB, 0, 0, 0, HEAD])
    assert len(step) == 6
    np.testing.assert_array_equal(step[2:5], rows[2:5].numpy())
    assert step[0:2].columns.tolist() == rows[:2, :VOCAB].argmax(-1).tolist()
    assert step[5:6].columns.tolist() in ([VOCAB], [VOCAB + 1])


@pytest.mark.parametrize("best_of", [[VOCAB], [VOCAB, 0], [0, VOCAB]])
def test_a_sequence_that_is_due_no_logits_gets_no_rows_wherever_it_stands(best_of):
    step = reduction.reduced(logits(len(best_of)), best_of)
    assert [len(step[row:row]) for row in range(len(best_of) + 1)] == [0] * (len(best_of) + 1)


def test_where_all_is_read_nothing_is_reduced():
    assert isinstance(reduction.reduced(logits(3), [0, 0, 0]), np.ndarray)
    assert isinstance(reduction.whole(logits(3), [VOCAB] * 3), np.ndarray)


def test_equal_logits_give_the_lowest_column_as_numpy_does():
    rows = torch.zeros(4, HEAD)
    rows[1, 2:5] = rows[2, 3] = rows[2, 5] = 1
    columns = reduction.reduced(rows, [VOCAB] * 4)[0:4].columns.tolist()
    assert columns == rows[:, :VOCAB].numpy().argmax(-1).tolist() == [0, 2, 3, 0]


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_a_number_that_is_not_finite_is_seen_in_its_own_rows_alone(bad):
    rows = logits(4)
    rows[1, 3] = bad
    step = reduction.reduced(rows, [VOCAB] * 4)
    assert not are_finite(step[0:2])
    assert are_finite(step[2:4])
    assert not are_finite(rows.numpy())


@pytest.mark.parametrize("verification", Verification)
@pytest.mark.parametrize("tokens", [(), (4,), (4, 1, 5), (0, 0), (4, 1, 5, 2), (4, VOCAB, 1)])
def test_the_verdict_is_that_of_whole_rows(tokens, verification):
    verifier = Verifier(SamplingParams(temperature=0, verification=verification), 2, 1, 0, VOCAB)
    rows = logits(len(tokens) + 1)
    rows[range(min(len(tokens), 2)), [4, 1][: len(tokens)]] = 9
    proposal = Proposal(2, tokens)
    best = reduction.reduced(rows, [verifier.best_of] * len(rows))[0 : len(rows)]
    assert isinstance(best, Best)
    assert verifier.verify((0, 3), proposal, best) == verifier.verify((0, 3), proposal, rows.numpy())


@pytest.mark.parametrize(
    "params",
    [
        {"temperature": 1.0},
        {"presence_penalty": 0.5},
        {"repetition_penalty": 1.1},
        {"logit_bias": ((3, 1.0),)},
        {"stop_token_ids": (2,), "min_tokens": 4},
    ],
)
def test_whoever_reads_more_than_the_best_gets_whole_rows(params):
    assert Verifier(SamplingParams(**{"temperature": 0.0, **params}), 2, 1, 0, VOCAB).best_of == 0


def test_logprobs_need_whole_rows():
    assert Verifier(SamplingParams(temperature=0), 2, 1, 0, VOCAB, num_logprobs=0).best_of == 0
    assert Verifier(SamplingParams(temperature=0, stop_token_ids=(2,)), 2, 1, 0, VOCAB).best_of == VOCAB


def test_a_batch_of_both_kinds_through_the_engine(tiny_pair):
    loaded = load(tiny_pair.target)
    plain, engine = Paged(loaded), Paged(loaded)
    engine.runner = Runner(loaded, engine.cache, engine.runner.backend, torch.device("cpu"), reduction.reduced)
    prompts = [random_tokens(seed, 9 + seed) for seed in range(3)]
    whole = plain.run(*[plain.open(prompt, num_logits=2) for prompt in prompts])
    ours = engine.run(
        *[
            engine.open(prompt, num_logits=2, best_of=best_of)
            for prompt, best_of in zip(prompts, (64, 0, 64), strict=True)
        ]
    )
    np.testing.assert_array_equal(ours[1], whole[1])
    assert [rows.columns.tolist() for rows in (ours[0], ours[2])] == [rows.argmax(-1).tolist() for rows in whole[::2]]
