"""A step has as few threads as make it hardly slower."""

import pytest
import torch

from forerun.engine.thread_count import NARROW_ROWS, ThreadCount, candidates, measured


@pytest.fixture(autouse=True)
def threads_are_as_before():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


class Machine:
    """Time that only steps take, each as long as `seconds` says of the threads that it has."""

    def __init__(self, seconds, stalls=()):
        self.now_s, self._seconds, self._stalls, self.num_steps = 0.0, seconds, stalls, 0

    def clock(self):
        return self.now_s

    def step(self):
        self.now_s += self._seconds(torch.get_num_threads()) * (10 if self.num_steps in self._stalls else 1)
        self.num_steps += 1


def narrow(machine, num_cores):
    return measured(machine.step, num_cores, machine.clock).narrow


def test_one_thread_serves_where_more_bring_little():
    assert narrow(Machine(lambda n: 0.014 + 0.004 * (n - 1)), 2) == 1


def test_as_many_serve_as_bring_much():
    """Eight billion bytes at 10 GB/s a core, 100 GB/s in all, and 20 ms of waking."""
    assert narrow(Machine(lambda n: max(0.8 / n, 0.08) + 0.02 * (n > 1)), 16) == 8


def test_a_machine_that_stood_still_for_a_moment_changes_nothing():
    for stalls in ({2, 5}, {3, 4}, {2, 3, 7}):
        assert narrow(Machine(lambda n: 0.02 / n, stalls), 2) == 2


def test_the_first_steps_do_not_count():
    assert narrow(Machine(lambda n: 0.02 if n == 1 else 0.012, {0, 1}), 2) == 2


def test_slow_steps_are_timed_no_longer_than_it_takes_to_see():
    machine = Machine(lambda n: 8.0 / n)
    assert narrow(machine, 4) == 4
    assert machine.num_steps == 2 * len(candidates(4))


def test_all_cores_are_among_the_candidates():
    assert candidates(1) == [1]
    assert candidates(6) == [1, 2, 4, 6]
    assert candidates(8) == [1, 2, 4, 8]


def test_wide_steps_have_all():
    count = ThreadCount(1, 2)
    count.use_for(NARROW_ROWS)
    assert torch.get_num_threads() == 1
    count.use_for(NARROW_ROWS + 1)
    assert torch.get_num_threads() == 2
