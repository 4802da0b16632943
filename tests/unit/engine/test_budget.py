"""Prefill takes what it can without stretching the steps of those who decode."""

import pytest

from forerun.engine.budget import MAX_STRETCH, MIN_CHUNK, PrefillBudget
from forerun.errors import ConfigError


def learnt(decode_s, token_s, max_chunk=512):
    budget = PrefillBudget(max_chunk)
    for _ in range(100):
        budget.observe(decode_s, 4, 0)
        budget.observe(decode_s + 64 * token_s, 4, 64)
    return budget


def test_alone_a_prefill_takes_the_largest_chunk():
    assert PrefillBudget(512).num_tokens(0) == 512


@pytest.mark.parametrize(("decode_s", "token_s"), [(0.04, 0.002), (0.04, 0.0005), (0.2, 0.001)])
def test_a_chunk_stretches_a_decoding_step_by_no_more_than_it_may(decode_s, token_s):
    chunk = learnt(decode_s, token_s).num_tokens(4)
    assert chunk * token_s <= MAX_STRETCH * decode_s * 1.01
    assert chunk * token_s >= MAX_STRETCH * decode_s * 0.9 - token_s


def test_a_prefill_goes_on_however_dear_its_tokens_are():
    assert learnt(decode_s=0.01, token_s=0.1).num_tokens(4) == MIN_CHUNK


def test_a_prefill_that_never_goes_on_is_refused():
    with pytest.raises(ConfigError, match="--prefill-chunk is at least 1, got 0"):
        PrefillBudget(0)


def test_a_chunk_is_never_larger_than_the_setting():
    assert learnt(decode_s=10.0, token_s=0.0001, max_chunk=256).num_tokens(4) == 256


def test_a_mixed_step_teaches_nothing_while_the_cost_of_decoding_is_unknown():
    fresh, mixed = PrefillBudget(512), PrefillBudget(512)
    for _ in range(50):
        mixed.observe(0.5, 4, 8)
    for budget in (fresh, mixed):
        budget.observe(0.04, 4, 0)
    assert mixed.num_tokens(4) == fresh.num_tokens(4)
