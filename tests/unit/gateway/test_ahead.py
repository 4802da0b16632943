"""Whether drafting ahead is on: where whole rounds are measured to be shorter with it."""

import random

import pytest

from gateway.ahead import MAX_STAY_ROUNDS, TRIAL_ROUNDS, Ahead, AheadRecord
from gateway.questions import NOT_AHEAD

KIND = (4, 1)


def share_on(record, ratio, num_rounds, noise=0.3, seed=1, kind=KIND):
    """Runs rounds that take 1 s without and `ratio` with, give or take; the share of them that was ahead."""
    rng, num_on = random.Random(seed), 0
    ahead = Ahead(record)
    for _ in range(num_rounds):
        is_on = ahead.terms(kind[0]) != NOT_AHEAD
        num_on += is_on
        ahead.saw_round(kind[0], 1, (ratio if is_on else 1.0) * (1 + rng.uniform(-noise, noise)))
    return num_on / num_rounds


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("ratio", "low", "high"), [(0.75, 0.85, 1.0), (1.25, 0.0, 0.03)])
def test_it_is_on_where_it_pays_and_else_hardly_ever_tried(ratio, low, high, seed):
    """The higher bound is what may be lost where devices are shared: a quarter of 3% of the rounds."""
    assert low <= share_on(AheadRecord(), ratio, 4000, seed=seed) <= high


@pytest.mark.parametrize(("mode", "share"), [("on", 1.0), ("off", 0.0)])
def test_a_flag_decides_for_good(mode, share):
    assert share_on(AheadRecord(mode), 2.0 if mode == "on" else 0.2, 2000) == share


def test_what_changes_is_noticed_at_the_next_trial():
    record = AheadRecord()
    assert share_on(record, 0.7, 1000) > 0.8
    share_on(record, 1.4, 400)
    assert share_on(record, 1.4, 1000) < 0.1
    share_on(record, 0.7, MAX_STAY_ROUNDS)
    assert share_on(record, 0.7, 2000) > 0.8


def test_another_k_is_measured_before_it_is_judged():
    record = AheadRecord()
    assert share_on(record, 0.7, 1000) > 0.8
    share_on(record, 1.5, 6 * TRIAL_ROUNDS, kind=(2, 1))
    assert share_on(record, 1.5, 300, kind=(2, 1)) < 0.1


def test_a_round_counts_only_after_one_of_its_own_kind():
    """The wait that drafting ahead saves is the next round's."""
    record, seen = AheadRecord(), []
    record.saw_round = lambda kind, was_on, duration_s: seen.append((was_on, duration_s))
    ahead = Ahead(record)
    for duration_s, is_on in enumerate([False, False, True, True, False]):
        record.is_on = is_on
        ahead.terms(4)
        ahead.saw_round(4, 1, float(duration_s))
    assert seen == [(False, 1.0), (True, 3.0)]
    ahead.interrupted()
    ahead.terms(4)
    ahead.saw_round(4, 1, 9.0)
    assert len(seen) == 2
