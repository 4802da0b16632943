"""Which sequences get which part of the next step: decoding first, prefill in chunks, preemption out of blocks."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from forerun.engine.sequence import Sequence
from forerun.engine.sequence_table import SequenceTable

SHORT = 33
"""Tokens due up to which a sequence counts as decoding: the longest proposal and one more."""

LATELY = 8
"""Steps for which a sequence that was served counts as decoding though nothing of it is due: between two of its
messages it waits for its gateway or its draft, and a large chunk would stall it all the same."""

LATELY_S = 0.25
"""For so long at least it also keeps its blocks: a small draft has made many steps before its target made one, and who
loses its blocks between two rounds comes back for a prefill, and for the blocks of the next."""


@dataclass(frozen=True, slots=True)
class Slice:
    """`num_tokens` of one sequence, from its num_computed on, in the next step."""

    sequence: Sequence
    num_tokens: int


class Scheduler:
    """Sequences in order of arrival: `running` ones may hold blocks, `waiting` ones hold none.

    At most max_running of them are computed at once; idle ones keep their blocks until somebody needs them.
    A waiting sequence takes those of idle ones that were not served lately. A running one that finds no block takes
    those of any idle one, else of the last to arrive, which waits and is computed again. Those served least recently
    decode first where a step has no room for all.
    """

    def __init__(self, table: SequenceTable, max_running: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._table = table
        self._clock = clock
        self._now_s = 0.0
        self.max_running = max_running
        self.running: list[Sequence] = []
        self.waiting: list[Sequence] = []
        self.num_preemptions = 0
        self._step = 0

    def add(self, sequence: Sequence) -> None:
        """A new sequence; it runs as soon as there is room."""
        self.waiting.append(sequence)

    def add_expendable(self, sequence: Sequence) -> None:
        """A sequence that has its blocks already: it takes no other's place, and once it gave way it waits for ever."""
        self.running.append(sequence)

    def remove(self, sequence: Sequence) -> None:
        """Forgets it and frees its blocks; harmless for one that is not here."""
        for queue in (self.running, self.waiting):
            if sequence in queue:
                queue.remove(sequence)
        self._table.evict(sequence)

    @property
    def num_queued(self) -> int:
        return sum(1 for sequence in self.waiting if sequence.num_due > 0 and not sequence.expendable)

    def schedule(self, max_rows: int, prefill_budget: Callable[[int], int]) -> list[Slice]:
        """The slices of the next step, all with blocks reserved.

        max_rows bounds the step's tokens; prefill_budget(rows already decoding) says how many may be prefill.
        """
        self._now_s = self._clock()
        self._admit()
        self._step += 1
        slices: list[Slice] = []
        due = sorted((s for s in self.running if s.num_due > 0), key=lambda s: (s.expendable, s.last_step))
        for sequence in (s for s in due if s.num_due <= SHORT):
            room = max_rows - _num_rows(slices)
            if len(slices) < self.max_running and sequence.num_due <= room:
                self._take(sequence, sequence.num_due, slices)
        budget = prefill_budget(_num_rows(slices) or self._num_between_messages())
        for sequence in [s for s in self.running if s.num_due > SHORT]:
            room = max_rows - _num_rows(slices) if slices else max(max_rows, sequence.num_logits)
            chunk = _chunk(sequence, min(budget, room), room)
            if chunk > 0 and self._take(sequence, chunk, slices):
                budget -= chunk
        return slices

    def _num_between_messages(self) -> int:
        return sum(1 for s in self.running if s.num_due == 0 and self._steps_ago(s) < LATELY)

    def _is_resting(self, sequence: Sequence) -> bool:
        """Whether it is idle, and not just between two rounds."""
        is_late = self._steps_ago(sequence) >= LATELY and self._now_s - sequence.last_step_s >= LATELY_S
        return sequence.num_due == 0 and is_late

    def _steps_ago(self, sequence: Sequence) -> int:
        return self._step - sequence.last_step

    def _admit(self) -> None:
        """Lets waiting sequences in, oldest first, while all that they have to compute fits beside the others."""
        while sum(1 for s in self.running if s.num_due > 0 and not s.expendable) < self.max_running:
            sequence = next((s for s in self.waiting if s.num_due > 0 and not s.expendable), None)
            if sequence is None:
                return
            self._table.reuse_prefix(sequence)
            if not self._make_room(sequence):
                self._table.evict(sequence)
                return
            if sequence.num_cached_tokens is None:
                sequence.num_cached_tokens = sequence.num_computed
            self.waiting.remove(sequence)
            self.running.append(sequence)

    def _make_room(self, sequence: Sequence) -> bool:
        """True where the pool has blocks for all that the sequence has to compute; resting ones may lose theirs."""
        pool = self._table.pool
        missing = self._table.num_missing_blocks(sequence, sequence.goal)
        givers = [s for s in self.running if self._is_resting(s) and not s.expendable]
        givers += [s for s in self.running if s.expendable]
        if missing > pool.num_free + self._table.num_freeable_blocks(givers):
            return False
        while missing > pool.num_free:
            self._preempt(givers.pop())
        return True

    def _take(self, sequence: Sequence, num_tokens: int, slices: list[Slice]) -> bool:
        """Adds a slice with blocks for it; False where the sequence itself had to go."""
        length = sequence.num_computed + num_tokens
        while sequence in self.running:
            if self._table.num_missing_blocks(sequence, length) <= self._table.pool.num_free:
                self._table.reserve(sequence, length)
                slices.append(Slice(sequence, num_tokens))
                sequence.last_step, sequence.last_step_s = self._step, self._now_s
                return True
            victim = self._victim(sequence)
            self._preempt(victim)
            slices[:] = [piece for piece in slices if piece.sequence is not victim]
        return False

    def _victim(self, sequence: Sequence) -> Sequence:
        """Who gives up blocks: an expendable sequence if there is one, an idle one, else the last to arrive."""
        holders = [s for s in reversed(self.running) if s.block_table or s is sequence]
        return min(holders, key=lambda s: (not s.expendable, s.num_due > 0))

    def _preempt(self, sequence: Sequence) -> None:
        self._table.evict(sequence)
        self.running.remove(sequence)
        self.waiting.insert(0, sequence)
        self.num_preemptions += 1


def _num_rows(slices: list[Slice]) -> int:
    return sum(piece.num_tokens for piece in slices)


def _chunk(sequence: Sequence, budget: int, max_rows: int) -> int:
    """Tokens of a prefill to take now; the positions whose logits are due stay together in the last chunk."""
    if sequence.num_due <= max(budget, sequence.num_logits):
        return sequence.num_due if sequence.num_due <= max_rows else 0
    return max(0, min(budget, sequence.num_due - sequence.num_logits))
