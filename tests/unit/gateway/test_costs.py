"""The time model that K is chosen by."""

import pytest

from forerun.rpc.messages import Proposal
from gateway.acceptance import PRIOR, Acceptance, SharedAcceptance
from gateway.costs import Costs, StepTimes
from gateway.shadow import Shadow


def test_step_times_are_interpolated_between_what_was_seen_and_assumed_to_grow_beyond():
    steps = StepTimes()
    assert steps.at(1) is None
    steps.add(1, 0.010)
    steps.add(5, 0.014)
    assert steps.at(3) == pytest.approx(0.012)
    assert steps.at(9) > 0.014
    assert steps.at(1) == pytest.approx(0.010)


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


def test_a_shadow_is_scored_up_to_the_first_difference():
    shadow = Shadow(Proposal(base_len=7, tokens=[1, 2, 3]))
    assert not shadow.is_covered(9)
    assert shadow.is_covered(10)
    assert shadow.credits([1, 5, 3]) == [1.0, 0.0]
    laws = Proposal(base_len=7, tokens=[1, 2], support_lens=[2, 1], support_ids=[1, 4, 2], weights=[6, 3, 9])
    assert Shadow(laws).credits([4, 2]) == [0.5]
