"""The device thread: commands between steps, one fault ends one sequence, a device fault ends all and says so."""

import queue
import threading
import time

import numpy as np
import pytest
import torch

from forerun.engine import reduction
from forerun.engine.block_pool import BlockPool
from forerun.engine.budget import PrefillBudget
from forerun.engine.loop import EngineLoop
from forerun.engine.owner import NOT_FINITE
from forerun.engine.scheduler import SHORT, Scheduler
from forerun.engine.sequence import Sequence
from forerun.engine.sequence_table import SequenceTable
from forerun.errors import ConfigError, Overloaded, SequenceFault, ServiceUnavailable

WAIT_S = 10


class FakeRunner:
    """Logits `[n, 2]`: a row's own token and position; `faults` maps a token to what happens when it is computed."""

    def __init__(self):
        self.faults = {}
        self.gate = None
        self.entered = queue.SimpleQueue()

    def run(self, slices):
        self.entered.put([piece.sequence for piece in slices])
        if self.gate is not None:
            assert self.gate.wait(WAIT_S)
        rows = []
        for piece in slices:
            end = piece.sequence.num_computed + piece.num_tokens
            if end == piece.sequence.goal:
                rows += [self._row(piece.sequence, p) for p in range(end - piece.sequence.num_logits, end)]
        return np.array(rows, np.float32).reshape(-1, 2)

    def _row(self, sequence, position):
        fault = self.faults.get(sequence.tokens[position])
        if isinstance(fault, Exception):
            raise fault
        return (sequence.tokens[position] if fault is None else fault, position)


class Recorder:
    """An owner that puts what it hears into a queue; `then` runs after each delivery."""

    def __init__(self, then=lambda: None):
        self.heard = queue.SimpleQueue()
        self.then = then

    def on_logits(self, logits, step):
        self.heard.put(("logits", logits.tolist()))
        self.then()

    def on_starved(self, reason):
        self.heard.put(("starved", reason))

    def on_overflow(self):
        raise SequenceFault(NOT_FINITE)

    def on_fault(self, error):
        self.heard.put(("fault", error))

    def next(self):
        return self.heard.get(timeout=WAIT_S)

    def next_fault(self):
        kind, error = self.next()
        assert kind == "fault", error
        return error


class Rig:
    def __init__(self, num_blocks=64):
        self.runner = FakeRunner()
        self.table = SequenceTable(BlockPool(num_blocks, 4), "model")
        self.steps, self.device_faults = queue.SimpleQueue(), queue.SimpleQueue()
        self.loop = EngineLoop(
            self.runner,
            self.table,
            Scheduler(self.table, 8),
            PrefillBudget(64),
            256,
            self.steps.put,
            self.device_faults.put,
        )

    def open(self, tokens, owner=None, num_logits=1):
        owner = owner or Recorder()
        owner.sequence = Sequence(list(tokens), num_committed=len(tokens))

        def add():
            self.loop.add(owner.sequence, owner)
            self.table.demand(owner.sequence, num_logits)

        self.loop.call(add, owner)
        return owner

    def settle(self):
        """Returns once every command so far was obeyed."""
        done = threading.Event()
        self.loop.call(done.set)
        assert done.wait(WAIT_S)


@pytest.fixture
def rig():
    rig = Rig()
    rig.loop.start()
    yield rig
    rig.loop.stop()


def test_logits_go_to_the_owner_of_their_sequence(rig):
    owners = [rig.open([10 + n, 20 + n, 30 + n], num_logits=2) for n in range(3)]
    assert [owner.next() for owner in owners] == [("logits", [[20 + n, 1], [30 + n, 2]]) for n in range(3)]


def test_an_owner_may_let_go_of_a_neighbour_of_the_same_step(rig):
    """Who stands behind that one hears its own row."""
    first, going, last = Recorder(), Recorder(), Recorder()
    first.then = lambda: rig.loop.remove(going.sequence)
    rig.runner.gate = threading.Event()
    rig.open([90])
    rig.runner.entered.get(timeout=WAIT_S)
    rig.open([10, 11], first)
    rig.open([40, 41, 42, 43, 44], going)
    rig.open([30, 31], last)
    rig.runner.gate.set()
    assert first.next() == ("logits", [[11, 1]])
    assert last.next() == ("logits", [[31, 1]])
    assert rig.device_faults.empty()


def test_a_long_prompt_in_pieces_may_stand_behind_a_sequence_that_reads_its_best_alone():
    rig = Rig()
    whole = rig.runner.run

    def reduced(slices):
        rows = torch.from_numpy(whole(slices))
        return reduction.reduced(rows, [2] * len(rows))

    rig.runner.run = reduced
    greedy, prompt = Recorder(), Recorder()
    greedy.on_logits = prompt.on_logits = lambda best, step: greedy.heard.put((len(step.owners), best.columns.tolist()))
    rig.open([1, 2], greedy)
    rig.open([3] * 99, prompt)
    rig.loop.start()
    assert [greedy.next(), greedy.next()] == [(2, [0]), (1, [1])]
    rig.loop.stop()
    assert rig.device_faults.empty()


def test_an_owner_may_ask_for_more_while_it_is_served(rig):
    owner = Recorder()

    def go_on():
        if len(owner.sequence.tokens) < 5:
            owner.sequence.tokens.append(len(owner.sequence.tokens))
            rig.table.demand(owner.sequence, 1)

    owner.then = go_on
    rig.open([7, 8], owner)
    assert [owner.next()[1] for _ in range(4)] == [[[8, 1]], [[2, 2]], [[3, 3]], [[4, 4]]]


def test_commands_run_between_steps_and_never_during_one(rig):
    rig.runner.gate = threading.Event()
    rig.open([1, 2])
    rig.runner.entered.get(timeout=WAIT_S)
    obeyed = threading.Event()
    rig.loop.call(obeyed.set)
    assert not obeyed.is_set()
    rig.runner.gate.set()
    assert obeyed.wait(WAIT_S)


def test_a_removed_sequence_hears_nothing_more_and_its_blocks_are_free(rig):
    owner = rig.open([1, 2, 3, 4, 5])
    owner.next()
    rig.loop.call(lambda: rig.loop.remove(owner.sequence))
    rig.loop.call(lambda: rig.loop.remove(owner.sequence))
    rig.settle()
    assert rig.table.pool.num_free == 64
    assert owner.heard.empty()


@pytest.mark.parametrize("error", [SequenceFault("no"), Overloaded("no"), ZeroDivisionError()])
def test_an_owner_that_fails_ends_alone(rig, error):
    def fail():
        raise error

    failing, neighbour = rig.open([1, 2], Recorder(fail)), rig.open([3, 4])
    failing.next()
    assert isinstance(failing.next_fault(), SequenceFault | Overloaded)
    assert neighbour.next() == ("logits", [[4, 1]])
    assert rig.open([5]).next() == ("logits", [[5, 0]])
    assert rig.device_faults.empty()


def test_an_internal_fault_tells_its_kind_and_no_content(rig):
    def fail():
        raise KeyError("what the prompt said")

    failing = rig.open([1, 2], Recorder(fail))
    failing.next()
    assert str(failing.next_fault()) == "internal error: KeyError"


def test_a_command_that_fails_ends_its_owner_alone(rig):
    def fail():
        raise IndexError("a message that nobody expected")

    owner, neighbour = rig.open([1, 2]), rig.open([3, 4])
    owner.next(), neighbour.next()
    rig.loop.call(fail, owner)
    assert isinstance(owner.next_fault(), SequenceFault)
    assert rig.open([5]).next() == ("logits", [[5, 0]])
    assert rig.device_faults.empty()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_logits_that_are_not_finite_end_their_sequence_alone(rig, value):
    rig.runner.faults[2] = value
    broken, neighbour = rig.open([1, 2]), rig.open([3, 4])
    assert "not finite" in str(broken.next_fault())
    assert neighbour.next() == ("logits", [[4, 1]])


def test_nobody_reuses_what_a_broken_sequence_computed(rig):
    rig.runner.faults[9] = np.nan
    broken = rig.open([1, 2, 3, 4, 5, 6, 7, 8, 9])
    broken.next_fault()
    later = rig.open([1, 2, 3, 4, 5, 6, 7, 8, 10])
    assert later.next() == ("logits", [[10, 8]])
    assert later.sequence.num_cached_tokens == 0


def test_a_device_fault_ends_the_loop_and_tells_everyone():
    rig = Rig()
    rig.runner.faults[6] = RuntimeError("the device is gone")
    rig.runner.gate = threading.Event()

    class FailsTwice(Recorder):
        def on_fault(self, error):
            raise ValueError("the owner fails as well")

    owners = [rig.open([1, 2], FailsTwice()), rig.open([3, 4]), rig.open([5, 6]), rig.open([7, 8])]
    rig.loop.start()
    rig.runner.gate.set()
    for owner in owners[1:]:
        fault = owner.next_fault()
        assert isinstance(fault, ServiceUnavailable), "another replica can go on with it"
        assert "RuntimeError" in str(fault)
    assert str(rig.device_faults.get(timeout=WAIT_S)) == "the device is gone"
    rig.loop.stop()


def test_a_sequence_larger_than_the_pool_faults_alone():
    rig = Rig(num_blocks=4)
    rig.loop.start()
    huge, small = rig.open(range(17)), rig.open([1, 2])
    assert "the whole pool has 4" in str(huge.next_fault())
    assert small.next() == ("logits", [[2, 1]])
    rig.loop.stop()


def test_a_waiting_owner_is_told_that_it_waits_and_served_later():
    rig = Rig(num_blocks=4)
    greedy = rig.open(range(10))
    greedy.then = lambda: rig.table.demand(greedy.sequence, 1)
    late = rig.open(range(20, 30))
    rig.loop.start()
    kind, reason = late.next()
    assert (kind, "blocks" in reason) == ("starved", True)
    rig.loop.call(lambda: rig.loop.remove(greedy.sequence))
    heard = ("starved", reason)
    while heard[0] == "starved":
        heard = late.next()
    assert heard == ("logits", [[29, 9]])
    rig.loop.stop()


def test_a_loop_that_can_compute_for_nobody_does_not_spin_while_one_waits_for_the_blocks_of_one_that_rests():
    rig = Rig(num_blocks=4)
    resting = rig.open(range(10))
    rig.loop.start()
    resting.next()
    waiting = rig.open(range(20, 30))
    heard = [waiting.next()]
    while heard[-1][0] == "starved":
        heard.append(waiting.next())
    assert heard[-1] == ("logits", [[29, 9]])
    assert 2 <= len(heard) <= 60
    rig.loop.stop()


def test_an_owner_that_fails_on_being_told_that_it_waits_ends_alone():
    class Impatient(Recorder):
        def on_starved(self, reason):
            raise SequenceFault("never waits")

    rig = Rig(num_blocks=4)
    holder = rig.open(range(10))
    holder.then = lambda: rig.table.demand(holder.sequence, 1)
    impatient = rig.open(range(20, 30), Impatient())
    rig.loop.start()
    assert str(impatient.next_fault()) == "never waits"
    rig.loop.call(lambda: rig.loop.remove(holder.sequence))
    rig.settle()
    rig.loop.stop()


def test_every_step_is_reported_with_whom_it_served(rig):
    owner = rig.open([1, 2, 3])
    owner.next()
    step = rig.steps.get(timeout=WAIT_S)
    assert (step.num_rows, step.owners, step.num_queued) == (3, (owner,), 0)
    assert step.step_s >= 0


def test_a_wall_clock_that_is_set_back_makes_no_step_shorter(rig, monkeypatch):
    hours_back = iter(range(1000, 0, -1))
    monkeypatch.setattr(time, "time_ns", lambda: next(hours_back) * 3600 * 10**9)
    owner = rig.open([1, 2, 3])
    owner.next()
    step = rig.steps.get(timeout=WAIT_S)
    assert 0 < step.step_s < WAIT_S
    assert step.start_ns < step.end_ns


def test_a_step_too_small_for_a_proposal_would_never_come():
    with pytest.raises(ConfigError, match="33 rows"):
        EngineLoop(FakeRunner(), None, None, PrefillBudget(64), max_rows=SHORT - 1)


def test_the_heartbeat_is_young_while_the_loop_lives_and_ages_while_a_step_hangs(rig):
    rig.open([1, 2]).next()
    rig.settle()
    assert rig.loop.heartbeat_age_s < WAIT_S
    rig.runner.gate = threading.Event()
    rig.runner.entered = queue.SimpleQueue()
    rig.open([3, 4])
    rig.runner.entered.get(timeout=WAIT_S)
    age = rig.loop.heartbeat_age_s
    assert rig.loop.heartbeat_age_s > age
    rig.runner.gate.set()


def test_stop_ends_the_thread_is_safe_twice_and_before_start():
    rig = Rig()
    rig.loop.stop()
    rig = Rig()
    rig.loop.start()
    rig.loop.stop()
    rig.loop.stop()
    assert not any(thread.name == "device" and thread is rig.loop._thread for thread in threading.enumerate())


def test_stop_waits_for_the_step_in_progress(rig):
    rig.runner.gate = threading.Event()
    owner = rig.open([1, 2])
    rig.runner.entered.get(timeout=WAIT_S)
    stopping = threading.Thread(target=rig.loop.stop)
    stopping.start()
    rig.runner.gate.set()
    stopping.join(WAIT_S)
    assert owner.next() == ("logits", [[2, 1]])
