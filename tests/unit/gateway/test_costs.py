"""The time model that K is chosen by."""

import pytest

from forerun.cost.pace import best_pace
from forerun.cost.shifts import cycle_s
from forerun.rpc.messages import Proposal
from gateway.acceptance import PRIOR, Acceptance, SharedAcceptance
from gateway.costs import Costs
from gateway.shadow import Shadow
from gateway.step_times import StepTimes, isotonic


def test_step_times_are_interpolated_between_what_was_seen_and_assumed_to_grow_beyond():
    steps = StepTimes()
    assert steps.at(1) is None
    steps.add(1, 0.010)
    steps.add(5, 0.014)
    assert steps.at(3) == pytest.approx(0.012)
    assert steps.at(9) > 0.014
    assert steps.at(1) == pytest.approx(0.010)


def test_a_step_over_more_rows_is_taken_to_cost_no_less():
    assert isotonic([1.0, 3.0, 2.0, 4.0], [1.0, 1.0, 3.0, 1.0]) == [1.0, 2.25, 2.25, 4.0]
    steps = StepTimes()
    for i in range(40):
        steps.add(2, 0.010 + i * 1e-9)
    steps.add(1, 0.014)
    assert steps.at(1) <= steps.at(2) < 0.011


def test_a_machine_that_slows_down_does_so_for_row_counts_that_are_not_seen():
    steps = StepTimes()
    steps.add(1, 0.010)
    for i in range(300):
        steps.add(9, (0.012 if i < 200 else 0.024) + i * 1e-9)
    assert steps.at(1) == pytest.approx(0.020, rel=0.15)


def test_a_step_counts_once_however_many_sequences_tell_of_it():
    often, once = StepTimes(), StepTimes()
    for steps, times in ((often, 16), (once, 1)):
        steps.add(4, 0.010)
        for _ in range(times):
            steps.add(4, 0.020)
    assert often.at(4) == once.at(4)


def test_sequences_that_are_away_less_than_a_step_take_turns_in_two_shifts():
    assert cycle_s(lambda rows: 0.010, 0.004, 1, 5) == pytest.approx(0.014)
    assert cycle_s(lambda rows: 0.010, 0.004, 8, 5) == pytest.approx(0.020)
    assert cycle_s(lambda rows: 0.001 * rows, 0.004, 8, 5) == pytest.approx(0.040)
    assert cycle_s(lambda rows: 0.010, 1.0, 2, 5) == pytest.approx(1.010)


def test_k_goes_as_far_as_survival_is_worth_its_price():
    """λ rule: t_d + dT/dm = 2, plain 10, α = 0.8 each: survival ≥ λ · 2 up to k, below it beyond."""
    pace = best_pace(lambda _: 0.8, lambda k: 10.0 + 2.0 * k, 10.0, 16)
    speed = pace.gain / 10.0
    assert 0.8**pace.k >= speed * 2.0 > 0.8 ** (pace.k + 1)
    assert pace.num_tokens == pytest.approx(sum(0.8**i for i in range(pace.k + 1)))
    assert best_pace(lambda _: 0.8, lambda k: 10.0, 10.0, 0).k == 0


def test_a_round_that_gets_cheaper_later_is_found():
    """Two tokens cost so much that even sixteen at their price could not pay; sixteen cost little."""
    pace = best_pace(lambda _: 0.9, lambda k: 10.0 if k == 1 else 100.0 if k < 16 else 10.0, 10.0, 16)
    assert pace.k == 16


def test_tokens_that_come_in_bursts_cost_what_their_steps_took():
    """Of eight verdicts that the network delivers together, seven come microseconds after the one before."""
    costs = Costs()
    for _ in range(10):
        costs.saw_plain(1, 0.010, 0.080)
        for _ in range(7):
            costs.saw_plain(1, 0.010, 0.000_01)
    assert costs.steps.at(1) == pytest.approx(0.010, rel=0.01)


def test_a_round_costs_its_steps_and_its_waits():
    costs = Costs()
    costs.saw_plain(1, 0.010, 0.0101)
    costs.saw_proposal(4, 0.008, 0.009)
    costs.saw_verdict(5, 0.014, 0.0145)
    assert costs.plain_s(1) == pytest.approx(0.0101)
    assert costs.round_s(4, 1) == pytest.approx(0.008 + 0.001 + 0.014 + 0.0005)


def test_a_draft_that_claims_to_have_worked_longer_than_it_was_waited_for_is_not_believed():
    costs = Costs()
    costs.saw_proposal(2, 1e9, 0.004)
    assert costs.proposal_s(2) == pytest.approx(0.004)


def test_acceptance_starts_at_the_prior_and_follows_what_is_seen():
    table = Acceptance(SharedAcceptance())
    assert table.at(0) == PRIOR
    for _ in range(50):
        table.saw([1.0, 0.0])
    assert table.at(0) > 0.9
    assert table.at(1) < 0.2


def test_a_new_request_starts_where_others_of_its_kind_are():
    shared = SharedAcceptance()
    for _ in range(300):
        Acceptance(shared).saw([0.0])
    assert Acceptance(shared).at(0) < 0.05


def test_a_position_that_was_hardly_seen_is_taken_to_be_like_the_one_before():
    shared = SharedAcceptance()
    for _ in range(100):
        shared.saw([1.0, 1.0])
    shared.saw([1.0, 1.0, 0.0])
    assert shared.at(2) > 0.85
    assert shared.at(9) == shared.at(2)


def test_a_shadow_is_scored_up_to_the_first_difference():
    shadow = Shadow(Proposal(base_len=7, tokens=[1, 2, 3]), 3)
    assert not shadow.is_covered(9)
    assert shadow.is_covered(10)
    assert shadow.credits([1, 5, 3]) == [1.0, 0.0]
    laws = Proposal(base_len=7, tokens=[1, 2], support_lens=[2, 1], support_ids=[1, 4, 2], weights=[6, 3, 9])
    assert Shadow(laws, 2).credits([4, 2]) == [0.5]


def test_a_round_costs_less_where_proposals_are_there_already():
    costs = Costs()
    costs.saw_plain(1, 0.010, 0.010)
    for _ in range(20):
        costs.saw_proposal(4, 0.008, 0.010)
    asked = costs.round_s(4, 1)
    assert costs.wait_s(4) == pytest.approx(0.010)
    for _ in range(60):
        costs.saw_readiness(4, 0.0)
        costs.saw_verdict(5, 0.010, 0.010)
    assert costs.round_s(4, 1) < asked - 0.009
    assert costs.proposal_s(4) == pytest.approx(0.010), "a deadline still knows how long one may take"
