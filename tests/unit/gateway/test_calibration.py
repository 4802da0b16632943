"""Whether speculation pays at all, by the pair's pace with and without it."""

import pytest

from gateway.calibration import Calibrating, Calibration, LoadCalibration
from gateway.pair import PairRecord
from gateway.speculation import Speculation


def follow(load, token_s, num_tokens, num_sequences=1, gain=1.5):
    """Rounds of three tokens while it is on, single ones while it is off; how many of the tokens came in rounds."""
    speculated = done = 0
    while done < num_tokens:
        was_off = load.is_off
        count = 1 if was_off else 3
        load.saw(num_sequences, count, count * token_s[was_off], None if was_off else gain)
        done += count
        speculated += 0 if was_off else count
    return speculated / done


@pytest.mark.parametrize("num_sequences", [1, 3, 32])
def test_it_stays_on_where_a_token_costs_less_beside_the_draft(num_sequences):
    load = LoadCalibration()
    assert follow(load, {False: 0.01, True: 0.02}, 4000 * num_sequences, num_sequences) > 0.95


@pytest.mark.parametrize("num_sequences", [1, 3, 32])
def test_it_is_off_where_a_token_costs_more_whatever_the_model_promises(num_sequences):
    load = LoadCalibration()
    follow(load, {False: 0.025, True: 0.02}, 600 * num_sequences, num_sequences)
    assert follow(load, {False: 0.025, True: 0.02}, 8000 * num_sequences, num_sequences) < 0.05


def test_it_comes_back_once_the_draft_pays_again():
    load = LoadCalibration()
    follow(load, {False: 0.03, True: 0.02}, 5000)
    follow(load, {False: 0.01, True: 0.02}, 20_000)
    assert not load.is_off or load.is_silent


def test_a_promise_far_above_that_of_the_trial_brings_the_next_one_forward():
    loads = []
    for gain in (1.6, 2.4):
        load = LoadCalibration()
        follow(load, {False: 0.025, True: 0.02}, 400, gain=1.5)
        assert load.is_off
        for _ in range(8):
            load.promises(gain)
        loads.append(load)
    assert [load.is_off for load in loads] == [True, False]


def test_texts_that_are_always_promised_more_than_the_others_do_not_keep_it_trying():
    """One in four, of a draft that loses all the same."""
    load, num_trials, was_off = LoadCalibration(), 0, False
    for number in range(20_000):
        if load.is_off and not load.is_silent:
            load.promises(2.0 if number % 4 == 0 else 1.3)
        num_trials += load.is_silent and not was_off
        was_off = load.is_silent
        load.saw(1, 1, 0.02 if load.is_off else 0.03, None if load.is_off else 1.5)
    assert num_trials <= 24


def test_a_device_that_stands_still_once_decides_nothing():
    """In the very first window without the draft, at a load where that is six steps long."""
    for pause_s in (0.0, 0.12):
        load = LoadCalibration()
        for _ in range(100_000):
            seconds = 0.02 if load.is_off else 0.026
            if load.is_silent and pause_s:
                seconds, pause_s = seconds + pause_s, 0.0
            load.saw(32, 32, seconds * 32, None if load.is_off else 1.5)
            if load.is_off and not load.is_silent:
                break
        assert load.is_off, pause_s


def test_half_a_trial_does_not_wait_for_its_other_half_for_ever():
    load = LoadCalibration()
    for number in range(60):
        load.saw(1, 1, 0.02, 1.5, now=number * 0.02)
    assert load.is_silent
    load.saw(1, 1, 0.02, None, now=100.0)
    assert not load.is_silent


def test_nothing_is_decided_by_a_trial_in_which_hardly_anyone_speculated():
    load = LoadCalibration()
    for number in range(1000):
        load.saw(1, 1, 0.02 if load.is_off else 0.03, 1.01 if number % 50 == 0 and not load.is_off else None)
    assert not load.is_off or load.is_silent


def test_the_draft_is_silent_in_the_window_without_it_alone():
    load, states = LoadCalibration(), set()
    for _ in range(600):
        load.saw(1, 1, 0.025 if not load.is_off else 0.02, None if load.is_off else 1.5)
        states.add((load.is_off, load.is_silent))
    assert states == {(False, False), (True, True), (True, False)}


def test_times_that_span_two_windows_or_loads_do_not_count():
    calibration = Calibration()
    share, load = Calibrating(calibration), calibration.at(1)
    seen = []
    load.saw = lambda *what: seen.append(what[:4])
    for now, num_sequences in enumerate([1, 1, 2, 1, 1]):
        share.saw_verdict(num_sequences, 1, float(now))
    load.epoch += 1
    share.saw_verdict(1, 1, 5.0)
    share.saw_verdict(1, 1, 7.0)
    share.round_begins(1.7)
    share.saw_verdict(1, 3, 9.0)
    share.saw_verdict(1, 2, 9.5)
    assert seen == [(1, 1, 1.0, None), (1, 1, 1.0, None), (1, 1, 2.0, None), (1, 3, 2.0, 1.7), (1, 2, 0.5, None)]


def loses(load):
    follow(load, {False: 0.03, True: 0.02}, 400)
    assert load.is_off
    assert not load.is_silent


def test_where_it_loses_one_text_in_eight_brings_the_draft_in_to_see_whether_it_got_better():
    pair = PairRecord()
    assert all(Speculation(pair, "", None).brings_draft(1) for _ in range(8))
    loses(pair.calibration.at(1))
    texts = [Speculation(pair, "", None) for _ in range(16)]
    assert [text.brings_draft(1) for text in texts].count(True) == 2
    assert all(text.brings_draft(8) for text in texts), "another load is another matter"
    assert Speculation(pair, "", 3).brings_draft(1), "a K that is asked for is kept to"


def test_where_it_loses_the_first_token_is_followed_by_a_grant_at_once():
    pair = PairRecord()
    assert Speculation(pair, "", None).first_grant(True, 1) == 0
    loses(pair.calibration.at(1))
    assert Speculation(pair, "", None).first_grant(True, 1) > 0
