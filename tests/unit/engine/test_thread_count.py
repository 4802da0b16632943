"""A step has as few threads as make it hardly slower."""

import os
import subprocess
import sys
import time

import pytest
import torch

from forerun.engine.thread_count import Meters, ThreadCount, candidates, measured, num_interruptions


@pytest.fixture(autouse=True)
def threads_are_as_before():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


class Machine:
    """Time that only steps take, each as long as `seconds` says of its threads and its rows.

    is_busy: whether other work holds a core during a step, which then takes as long as on one thread and a bit more.
    """

    def __init__(self, seconds, stalls=(), is_busy=lambda step: False):
        self.now_s, self._seconds, self._stalls, self.num_steps = 0.0, seconds, stalls, 0
        self._is_busy, self.num_interruptions = is_busy, 0
        self.meters = Meters(lambda: self.now_s, lambda: self.num_interruptions)

    def step(self, num_rows):
        threads, is_busy = torch.get_num_threads(), self._is_busy(self.num_steps)
        seconds = self._seconds(1, num_rows) * 1.02 if is_busy else self._seconds(threads, num_rows)
        self.now_s += seconds * (10 if self.num_steps in self._stalls else 1)
        self.num_interruptions += is_busy and threads > 1
        self.num_steps += 1


def threads(count, num_rows):
    count.use_for(num_rows)
    return torch.get_num_threads()


def narrow(machine, num_cores):
    return threads(measured(machine.step, num_cores, machine.meters), 5)


def test_one_thread_serves_where_more_bring_little():
    assert narrow(Machine(lambda n, rows: 0.014 + 0.004 * (n - 1)), 2) == 1


def test_as_many_serve_as_bring_much():
    """Eight billion bytes at 10 GB/s a core, 80 GB/s in all, and 20 ms of waking."""
    assert narrow(Machine(lambda n, rows: max(0.8 / n, 0.1) + 0.02 * (n > 1)), 16) == 8


def test_a_machine_that_stood_still_for_a_moment_changes_nothing():
    for stalls in ({2, 5}, {3, 4}, {2, 3, 7}):
        assert narrow(Machine(lambda n, rows: 0.02 / n, stalls), 2) == 2


def test_the_first_steps_do_not_count():
    assert narrow(Machine(lambda n, rows: 0.02 if n == 1 else 0.012, {0, 1}), 2) == 2


def test_it_waits_for_steps_that_other_services_do_not_interrupt():
    """As they start: nothing but interrupted steps for longer than the least number of them takes."""
    assert narrow(Machine(lambda n, rows: 0.007 / n, is_busy=lambda step: step < 100), 2) == 2


def test_where_all_is_interrupted_it_takes_what_there_is():
    """The control: two threads show nothing, and the time that there is for it ends."""
    machine = Machine(lambda n, rows: 0.007 / n, is_busy=lambda step: True)
    assert narrow(machine, 2) == 1
    assert machine.now_s < 7


def test_a_process_that_shares_its_core_is_interrupted():
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    other = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        ends, before_it = time.monotonic() + 30, num_interruptions()
        while num_interruptions() == before_it:
            assert time.monotonic() < ends
    finally:
        other.kill()
        other.wait()
        os.sched_setaffinity(0, before)


def test_slow_steps_are_timed_no_longer_than_it_takes_to_see():
    machine = Machine(lambda n, rows: 8.0 / n)
    assert narrow(machine, 4) == 4
    assert machine.num_steps == 2 * len(candidates(4)), "wider steps are not timed at all"


def test_all_cores_are_among_the_candidates():
    assert candidates(1) == [1]
    assert candidates(6) == [1, 2, 4, 6]
    assert candidates(8) == [1, 2, 4, 8]


def test_wide_steps_have_more():
    """A microsecond a row that threads share, and 2 ms for each that is woken."""
    machine = Machine(lambda n, rows: 0.010 + rows * 1e-4 / n + 0.002 * (n - 1))
    count = measured(machine.step, 2, machine.meters)
    assert [threads(count, rows) for rows in (1, 32, 33, 128, 129, 5000)] == [1, 1, 1, 1, 2, 2]
    assert str(count) == "1/1/2"


def test_torch_is_told_only_where_the_number_changes(monkeypatch):
    count, told = ThreadCount({32: 1, 1 << 30: 2}), []
    torch.set_num_threads(1)
    monkeypatch.setattr(torch, "set_num_threads", told.append)
    for num_rows in (1, 32, 33):
        count.use_for(num_rows)
    assert told == [2]
