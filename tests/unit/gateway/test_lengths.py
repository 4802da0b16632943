"""Proposals that may end early: what a round of them takes, and what the gateway asks for."""

import pytest

from gateway.lengths import expected_s
from gateway.pair import PairRecord
from gateway.speculation import MAX_MIN_SURVIVAL, MIN_MIN_SURVIVAL, Speculation

STEP_S, TOKEN_S, K = 0.010, 0.002, 6


def pair():
    """Target steps of 10 ms whatever their rows, 2 ms a drafted token, no other waits."""
    record = PairRecord()
    for _ in range(50):
        record.costs.saw_plain(1, STEP_S, STEP_S)
        record.costs.saw_proposal(K, K * TOKEN_S, K * TOKEN_S)
        record.costs.saw_verdict(K + 1, STEP_S, STEP_S)
    return record


def test_a_round_takes_what_rounds_of_its_lengths_take_on_average():
    assert expected_s(lambda num: 1.0, lambda k: 10.0 + k, 4) == [11.0, 12.0, 13.0, 14.0]
    assert expected_s(lambda num: 0.0, lambda k: 10.0 + k, 4) == [11.0] * 4
    assert expected_s(lambda num: 0.5, lambda k: 10.0 + k, 3) == pytest.approx([11.0, 11.5, 11.75])


def test_a_token_has_to_be_worth_its_time():
    speculation = Speculation(pair(), "greedy", None)
    speculation.gain = 1.5
    assert speculation.min_survival(K, 1) == pytest.approx(1.5 * TOKEN_S / STEP_S, rel=0.05)
    speculation.gain = 0.5
    assert speculation.min_survival(K, 1) == pytest.approx(TOKEN_S / STEP_S, rel=0.05), "the target alone is faster"
    speculation.gain = 100.0
    assert speculation.min_survival(K, 1) == MAX_MIN_SURVIVAL


def test_where_nothing_is_to_be_cut_the_draft_still_learns_but_for_a_fixed_k():
    assert Speculation(pair(), "greedy", None).min_survival(1, 1) == MIN_MIN_SURVIVAL
    assert Speculation(PairRecord(), "greedy", None).min_survival(K, 1) == MIN_MIN_SURVIVAL
    assert Speculation(pair(), "greedy", 4).min_survival(4, 1) == 0.0


def test_rounds_that_end_early_make_the_deadline_shorter_but_never_below_a_whole_proposal():
    record = pair()
    speculation = Speculation(record, "greedy", None)
    before = speculation.deadline_s(16, 0)
    for num_generated in range(0, 400, 2):
        speculation.saw_round(16, 1, 1, num_generated)
    assert before == pytest.approx(4 * 16 * TOKEN_S, rel=0.1)
    assert speculation.deadline_s(16, 0) == pytest.approx(2 * 16 * TOKEN_S, rel=0.1)
