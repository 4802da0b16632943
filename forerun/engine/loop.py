"""The device thread: takes commands between steps, runs one step after another, hands logits to their owners."""

import logging
import queue
import threading
import time
from collections.abc import Callable
from collections.abc import Sequence as Seq
from functools import partial
from typing import Protocol

from forerun.engine.budget import PrefillBudget
from forerun.engine.logits import Rows, StepLogits, are_finite
from forerun.engine.owner import Owner, StepReport
from forerun.engine.scheduler import SHORT, Scheduler, Slice
from forerun.engine.sequence import Sequence
from forerun.engine.sequence_table import SequenceTable
from forerun.errors import ConfigError, ForerunError, SequenceFault, ServiceUnavailable

log = logging.getLogger(__name__)

IDLE_WAIT_S = 1.0
"""An idle loop wakes this often, to show that it lives."""

STARVED_WAIT_S = 0.01
"""A loop that has work for waiting sequences alone looks this often whether blocks came free."""

STARVED = "waiting for cache blocks or a place in the batch"


class Runner(Protocol):
    """What computes a step."""

    def run(self, slices: Seq[Slice]) -> StepLogits: ...

    def copy_blocks(self, sources: Seq[int], copies: Seq[int]) -> None:
        """Each copy holds from now on what its source holds."""
        ...


class EngineLoop:
    """Owns the device. Only `call`, `start`, `stop` and the read-only properties may be used from other threads.

    Raises ConfigError for a max_rows into which a decoding sequence may not fit: it would wait for ever.
    """

    def __init__(
        self,
        runner: Runner,
        table: SequenceTable,
        scheduler: Scheduler,
        budget: PrefillBudget,
        max_rows: int,
        on_step: Callable[[StepReport], None] = lambda step: None,
        on_device_fault: Callable[[Exception], None] = lambda error: None,
    ) -> None:
        if max_rows < SHORT:
            raise ConfigError(f"a step of {max_rows} rows has no room for the longest proposal; it takes {SHORT} rows")
        self.table = table
        self.scheduler = scheduler
        self._runner = runner
        self._budget = budget
        self._max_rows = max_rows
        self._on_step = on_step
        self._on_device_fault = on_device_fault
        self._owners: dict[Sequence, Owner] = {}
        self._mailbox: queue.SimpleQueue[tuple[Callable[[], None], Owner | None] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="device", daemon=True)
        self._heartbeat = time.monotonic()
        self._has_computed = False

    @property
    def heartbeat_age_s(self) -> float:
        """Seconds since the loop last went round; grows without end when it hangs or died."""
        return time.monotonic() - self._heartbeat

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Ends the thread after the step in progress; safe to call twice, and before start."""
        self._mailbox.put(None)
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join()

    def call(self, command: Callable[[], None], owner: Owner | None = None) -> None:
        """Has `command` run on the device thread between two steps; where it fails, that is the owner's fault alone."""
        self._mailbox.put((command, owner))

    def add(self, sequence: Sequence, owner: Owner) -> None:
        """Device thread only."""
        self._owners[sequence] = owner
        self.scheduler.add(sequence)

    def fork(self, parent: Sequence, forks: Seq[tuple[int, list[int], int, Owner]]) -> list[Sequence]:
        """Device thread only: for each (length, tokens, room, owner) an expendable sequence, asked for its next logits.

        As many as there are blocks for, in order; see SequenceTable.fork.
        """
        made, sources, copies = list[Sequence](), list[int](), list[int]()
        for length, tokens, room, owner in forks:
            forked = self.table.fork(parent, length, tokens, room)
            if forked is None:
                break
            sequence, source = forked
            if source is not None:
                sources.append(source)
                copies.append(sequence.block_table[length // self.table.pool.block_size])
            self._owners[sequence] = owner
            self.scheduler.add_expendable(sequence)
            sequence.request(len(sequence.tokens), 1)
            made.append(sequence)
        if sources:
            self._runner.copy_blocks(sources, copies)
        return made

    def adopt(self, sequence: Sequence, owner: Owner) -> None:
        """Device thread only: from now on it is computed for `owner`, and as dear as any."""
        self._owners[sequence] = owner
        sequence.expendable = False

    def remove(self, sequence: Sequence) -> None:
        """Device thread only: frees its blocks, after offering the committed ones for reuse; harmless twice."""
        if self._owners.pop(sequence, None) is not None:
            self.table.index_committed(sequence)
            self.scheduler.remove(sequence)

    def _run(self) -> None:
        try:
            while self._take_commands():
                self._heartbeat = time.monotonic()
                self._step()
        except Exception as error:
            log.exception("the device thread ended")
            for sequence in list(self._owners):
                self._fail(sequence, _as_end(error))
            self._on_device_fault(error)

    def _take_commands(self) -> bool:
        """Runs what is in the mailbox, waiting for it when there is nothing to compute; False at the end."""
        try:
            order = self._mailbox.get(timeout=self._wait_s())
            while order is not None:
                self._obey(*order)
                order = self._mailbox.get_nowait()
            return False
        except queue.Empty:
            return True

    def _wait_s(self) -> float:
        if not any(sequence.num_due > 0 for sequence in self._owners):
            return IDLE_WAIT_S
        return 0.0 if self._has_computed else STARVED_WAIT_S

    def _obey(self, command: Callable[[], None], owner: Owner | None) -> None:
        try:
            command()
        except Exception as error:
            if owner is None:
                raise
            for sequence in [s for s, its in self._owners.items() if its is owner]:
                self._fail(sequence, _as_fault(error))

    def _step(self) -> None:
        self._refuse_oversized()
        slices = self.scheduler.schedule(self._max_rows, self._budget.num_tokens)
        self._tell_starved()
        self._has_computed = bool(slices)
        if not slices:
            return
        start_ns, began_ns = time.time_ns(), time.perf_counter_ns()
        logits = self._runner.run(slices)
        step = StepReport(
            start_ns,
            start_ns + time.perf_counter_ns() - began_ns,  # the wall clock may be set meanwhile
            sum(piece.num_tokens for piece in slices),
            self.scheduler.num_queued,
            tuple(self._owners[piece.sequence] for piece in slices),
        )
        prefill = sum(piece.num_tokens for piece in slices if piece.sequence.num_due > SHORT)
        self._budget.observe(step.step_s, step.num_rows - prefill, prefill)
        self._deliver(slices, logits, step)
        self._on_step(step)

    def _deliver(self, slices: Seq[Slice], logits: StepLogits, step: StepReport) -> None:
        """Owners may remove sequences, others of the step too, so its rows are told apart before any of them hears."""
        row = 0
        for piece, num_logits in [(piece, _num_logits(piece)) for piece in slices]:
            sequence, rows = piece.sequence, logits[row : row + num_logits]
            row += num_logits
            if sequence not in self._owners:
                continue
            sequence.num_computed += piece.num_tokens
            self.table.index_committed(sequence)
            if num_logits:
                self._hand_over(sequence, rows, step)

    def _hand_over(self, sequence: Sequence, rows: Rows, step: StepReport) -> None:
        owner = self._owners[sequence]
        try:
            if are_finite(rows):
                owner.on_logits(rows, step)
            else:
                self.table.disown(sequence)
                owner.on_overflow()
        except Exception as error:
            self._fail(sequence, _as_fault(error))

    def _fail(self, sequence: Sequence, error: Exception) -> None:
        owner = self._owners.get(sequence)
        self.remove(sequence)
        if owner is None:
            return
        try:
            owner.on_fault(error)
        except Exception:
            log.exception("the owner of a failed sequence failed too")

    def _refuse_oversized(self) -> None:
        total = self.table.pool.num_blocks
        for sequence in self._waiting():
            num_blocks = self.table.num_missing_blocks(sequence, sequence.goal)
            if num_blocks > total:
                self._fail(sequence, SequenceFault(f"needs {num_blocks} cache blocks, the whole pool has {total}"))

    def _tell_starved(self) -> None:
        for sequence in self._waiting():
            if (owner := self._owners.get(sequence)) is not None:
                self._obey(partial(owner.on_starved, STARVED), owner)

    def _waiting(self) -> list[Sequence]:
        return [sequence for sequence in self.scheduler.waiting if sequence.num_due > 0]


def _num_logits(piece: Slice) -> int:
    """Rows of logits that the slice gives: those of a sequence that it completes (batch.flatten)."""
    return piece.sequence.num_logits if piece.sequence.num_due == piece.num_tokens else 0


def _as_end(error: Exception) -> ForerunError:
    """What the sequences of a replica that ends are told: another replica can go on with them."""
    if isinstance(error, ForerunError):
        return error
    return ServiceUnavailable(f"the device failed ({type(error).__name__}); this replica ends")


def _as_fault(error: Exception) -> ForerunError:
    if isinstance(error, ForerunError):
        return error
    log.error("a sequence failed", exc_info=error)
    return SequenceFault(f"internal error: {type(error).__name__}")
