"""Processors against a plain reading of what each parameter says, token by token."""

import math
from collections import Counter

import numpy as np
import pytest

from forerun.errors import InvalidRequest, SequenceFault
from forerun.sampling.processors import Processors
from forerun.types import SamplingParams

PROMPT = (1, 4, 4)
OUTPUT = (2, 2, 5)
CONTEXT = PROMPT + OUTPUT


def logits_of(size=12, seed=0):
    return np.random.default_rng(seed).normal(scale=2, size=size).astype(np.float32)


def law(params, logits=None, context=CONTEXT, vocab_ids=None):
    logits = logits_of() if logits is None else logits
    return Processors(params, len(PROMPT), vocab_ids).law(logits, context)


def plain_law(params, logits, context):
    """The definition, in Python floats and without any speed."""
    values = [float(x) for x in logits]
    output = Counter(context[len(PROMPT) :])
    for token in set(context):
        x = values[token]
        values[token] = x / params.repetition_penalty if x > 0 else x * params.repetition_penalty
    for token, count in output.items():
        values[token] -= params.presence_penalty + params.frequency_penalty * count
    for token, bias in params.logit_bias:
        values[token] = -math.inf if bias <= -100 else values[token] + bias
    if len(context) - len(PROMPT) < params.min_tokens:
        for token in params.stop_token_ids:
            values[token] = -math.inf
    powers = [math.exp((x - max(values)) / params.temperature) for x in values]
    p = [x / sum(powers) for x in powers]
    if params.top_k:
        p = kept(p, sorted(p)[-min(params.top_k, len(p))])
    if params.top_p < 1:
        mass, threshold = 0.0, 1.0
        for threshold in sorted(p, reverse=True):
            mass += threshold
            if mass >= params.top_p:
                break
        p = kept(p, threshold)
    return kept(p, params.min_p * max(p))


def kept(p, threshold):
    rest = [x if x >= threshold else 0.0 for x in p]
    return [x / sum(rest) for x in rest]


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"temperature": 0.3},
        {"temperature": 1.7},
        {"top_k": 1},
        {"top_k": 4},
        {"top_k": 99},
        {"top_p": 0.05},
        {"top_p": 0.7},
        {"top_p": 0.999},
        {"min_p": 0.2},
        {"presence_penalty": 1.5},
        {"frequency_penalty": -0.7},
        {"repetition_penalty": 1.4},
        {"repetition_penalty": 0.8},
        {"logit_bias": ((3, 2.0), (0, -100.0))},
        {"min_tokens": 4, "stop_token_ids": (6, 7)},
        {"min_tokens": 3, "stop_token_ids": (6, 7)},
    ],
    ids=str,
)
def test_each_parameter_does_what_its_definition_says(params):
    """Cases 5, 17, 18, 20."""
    params = SamplingParams(**params)
    for seed in range(5):
        logits = logits_of(seed=seed)
        assert np.allclose(law(params, logits), plain_law(params, logits, CONTEXT), atol=1e-12)


def test_all_parameters_together_apply_in_the_documented_order():
    params = SamplingParams(
        0.8, 0.9, 8, 0.02, 0.5, 0.3, 1.2, ((3, 1.0), (2, -100.0)), min_tokens=9, stop_token_ids=(7,)
    )
    for seed in range(20):
        logits = logits_of(20, seed)
        assert np.allclose(law(params, logits), plain_law(params, logits, CONTEXT), atol=1e-12)


def test_large_vocabularies_are_cut_as_small_ones_are():
    logits = logits_of(5000, 3)
    for params in (SamplingParams(top_p=0.9), SamplingParams(top_k=40), SamplingParams(top_p=0.9999, top_k=4000)):
        assert np.allclose(law(params, logits), plain_law(params, logits, CONTEXT), atol=1e-12)


def test_tokens_as_likely_as_the_last_one_kept_are_kept_too():
    logits = np.array([2, 1, 1, 1, 0], dtype=np.float32)
    for params in (SamplingParams(top_k=2), SamplingParams(top_p=0.6)):
        assert np.count_nonzero(law(params, logits, ())) == 4


def test_a_bias_of_minus_100_forbids_whatever_the_logit():
    """Case 20."""
    logits = logits_of()
    logits[3] = 500
    for temperature in (0.0, 1.0):
        params = SamplingParams(temperature=temperature, logit_bias=((3, -100.0),))
        assert law(params, logits)[3] == 0


def test_temperature_zero_is_one_hot_on_the_lowest_of_equal_logits_after_penalties():
    logits = np.array([3, 5, 5, 1], dtype=np.float32)
    assert law(SamplingParams(temperature=0), logits, ()).tolist() == [0, 1, 0, 0]
    penalised = SamplingParams(temperature=0, repetition_penalty=2.0)
    assert law(penalised, logits, (0, 0, 0, 1)).tolist() == [0, 0, 1, 0]


def test_a_tiny_temperature_does_not_overflow():
    p = law(SamplingParams(temperature=1e-300))
    assert p[np.argmax(logits_of())] == 1.0


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_logit_that_is_not_finite_is_a_fault_of_this_sequence(bad, temperature):
    logits = logits_of()
    logits[5] = bad
    with pytest.raises(SequenceFault, match="finite"):
        law(SamplingParams(temperature=temperature), logits)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_forbidding_every_token_is_a_fault_of_this_sequence(temperature):
    bias = tuple((token, -100.0) for token in range(12))
    with pytest.raises(SequenceFault, match="forbidden"):
        law(SamplingParams(temperature=temperature, logit_bias=bias))


@pytest.mark.parametrize("vocab_ids", [[5, 2, 9, 0, 4], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]])
def test_a_trimmed_vocabulary_gives_the_law_of_its_own_columns(vocab_ids):
    params = SamplingParams(
        presence_penalty=0.5, frequency_penalty=0.2, repetition_penalty=1.3, logit_bias=((9, 2.0), (11, 5.0))
    )
    logits = logits_of()
    ids = np.array(vocab_ids)
    whole = law(params, logits)
    trimmed = law(params, logits[ids], vocab_ids=ids)
    assert np.allclose(trimmed, whole[ids] / whole[ids].sum())


def test_ids_beyond_the_vocabulary_have_no_effect():
    params = SamplingParams(
        repetition_penalty=1.3, logit_bias=((400, 5.0),), min_tokens=50, stop_token_ids=(99,), presence_penalty=1.0
    )
    with_unknown = law(params, context=(*CONTEXT, 77))
    assert np.allclose(with_unknown, law(SamplingParams(repetition_penalty=1.3, presence_penalty=1.0)))


def test_the_callers_logits_are_left_alone():
    logits = logits_of()
    before = logits.copy()
    law(SamplingParams(repetition_penalty=1.3, top_p=0.5, logit_bias=((1, 3.0),)), logits)
    assert np.array_equal(before, logits)


@pytest.mark.parametrize(
    "params",
    [
        {"temperature": -1},
        {"temperature": math.nan},
        {"temperature": math.inf},
        {"top_p": 1.5},
        {"top_k": -1},
        {"min_p": -0.1},
        {"presence_penalty": math.inf},
        {"frequency_penalty": math.nan},
        {"presence_penalty": 1e300},
        {"repetition_penalty": 5e-324},
        {"logit_bias": ((1, 1e308),)},
        {"repetition_penalty": 0},
        {"logit_bias": ((1, math.nan),)},
    ],
    ids=str,
)
def test_a_parameter_that_gives_no_law_is_refused_by_name(params):
    with pytest.raises(InvalidRequest) as raised:
        Processors(SamplingParams(**params), 0)
    assert raised.value.param == next(iter(params))
