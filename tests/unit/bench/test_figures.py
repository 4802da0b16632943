"""Figures of windows whose answers are known."""

import pytest

from forerun.bench.figures import figures, on_over_off
from forerun.bench.window import Window
from tests.unit.bench.answers import answer, counts


def window(*answers, took_s=1.0, failures=(), is_whole=True):
    return Window(list(answers), list(failures), started_s=100.0, ended_s=100.0 + took_s, is_whole=is_whole)


def of_rate(tokens_per_s, is_whole=True):
    return window(answer(0.0, 0.5, 1.0, num_tokens=tokens_per_s), is_whole=is_whole)


def test_latencies_are_of_all_answers_and_speed_of_the_median_window():
    windows = [of_rate(100), of_rate(10), window(answer(0.0, 0.1, 1.1, num_tokens=30), failures=["no room"])]
    told = figures(windows)
    assert (told.num_done, told.num_failed, told.tokens_per_s) == (3, 1, 30.0)
    assert told.ttft_p50_ms == 500
    assert told.ttft_p99_ms == 500
    assert told.gap_p99_ms == pytest.approx(990)  # between 500, 500 and 1000 ms
    assert told.tpot_p50_ms == pytest.approx(1e3 / 29, abs=0.1)


def test_acceptance_is_of_all_rounds_together():
    answers = [answer(0.0, 1.0, speculative=counts(*each)) for each in ((1, 8, 2), (3, 12, 8), (0, 0, 0), (0, 0, 0))]
    told = figures([window(*answers)])
    assert (told.acceptance_rate, told.mean_acceptance_length, told.drafted_share) == (0.5, 3.5, 0.5)


def test_what_a_server_does_not_tell_is_left_open():
    told = figures([window(answer(0.0, 1.0))])
    assert (told.acceptance_rate, told.mean_acceptance_length, told.drafted_share, told.tpot_p50_ms) == (None,) * 4
    assert figures([]).tokens_per_s is None


def test_a_window_that_was_broken_off_counts_for_speed_only_where_it_is_alone():
    assert figures([of_rate(10), of_rate(90, is_whole=False)]).tokens_per_s == 10
    assert figures([of_rate(90, is_whole=False)]).tokens_per_s == 90


def test_the_ratio_is_of_pairs_and_leaves_out_what_has_no_partner():
    on, off = [of_rate(20), of_rate(60), of_rate(45)], [of_rate(10), of_rate(40), of_rate(90, is_whole=False)]
    assert on_over_off(on, off) == {"median": 1.75, "min": 1.5, "max": 2.0, "runs": 2}
    assert on_over_off(on, []) is None
    assert on_over_off(on, [window()]) is None
