"""Budgets are spent by work, not by a machine that sleeps."""

from forerun.training.stopwatch import LONGEST_LAP_S, Stopwatch


def test_a_sleep_counts_as_one_long_step():
    times = iter([0.0, 2.0, 5.0, 5000.0, 5001.0])
    watch = Stopwatch(lambda: next(times))
    assert [watch.lap() for _ in range(4)] == [2.0, 3.0, LONGEST_LAP_S, 1.0]
