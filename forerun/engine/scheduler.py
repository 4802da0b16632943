"""Which sequences get which part of the next step: decoding first, prefill in chunks, preemption out of blocks."""

from collections.abc import Callable
from dataclasses import dataclass

from forerun.engine.sequence import Sequence
from forerun.engine.sequence_table import SequenceTable

SHORT = 32
"""Tokens due up to which a sequence counts as decoding: it holds a client's next token, a prefill only its first."""


@dataclass(frozen=True, slots=True)
class Slice:
    """`num_tokens` of one sequence, from its num_computed on, in the next step."""

    sequence: Sequence
    num_tokens: int


class Scheduler:
    """Sequences in order of arrival: `running` ones may hold blocks, `waiting` ones hold none.

    A running sequence that finds no block takes those of the last to arrive, which waits and is computed again.
    """

    def __init__(self, table: SequenceTable, max_running: int) -> None:
        self._table = table
        self._max_running = max_running
        self.running: list[Sequence] = []
        self.waiting: list[Sequence] = []
        self.num_preemptions = 0

    def add(self, sequence: Sequence) -> None:
        """A new sequence; it runs as soon as there is room."""
        self.waiting.append(sequence)

    def remove(self, sequence: Sequence) -> None:
        """Forgets it and frees its blocks; harmless for one that is not here."""
        for queue in (self.running, self.waiting):
            if sequence in queue:
                queue.remove(sequence)
        self._table.evict(sequence)

    @property
    def num_queued(self) -> int:
        return sum(1 for sequence in self.waiting if sequence.num_due > 0)

    def schedule(self, max_rows: int, prefill_budget: Callable[[int], int]) -> list[Slice]:
        """The slices of the next step, all with blocks reserved.

        max_rows bounds the step's tokens; prefill_budget(rows already decoding) says how many may be prefill.
        """
        self._admit()
        due = [sequence for sequence in self.running if sequence.num_due > 0]
        slices: list[Slice] = []
        num_rows = 0
        for sequence in (s for s in due if s.num_due <= SHORT):
            if sequence.num_due <= max_rows - num_rows and self._reserve(sequence, sequence.num_due, slices):
                slices.append(Slice(sequence, sequence.num_due))
                num_rows = sum(piece.num_tokens for piece in slices)
        budget = min(max_rows - num_rows, prefill_budget(num_rows))
        for sequence in (s for s in due if s.num_due > SHORT):
            chunk = _chunk(sequence, budget, max_rows - num_rows)
            if chunk > 0 and self._reserve(sequence, chunk, slices):
                slices.append(Slice(sequence, chunk))
                num_rows += chunk
                budget -= chunk
        return slices

    def _admit(self) -> None:
        """Lets waiting sequences in, oldest first, while all that they have to compute fits beside the others."""
        while self.waiting and len(self.running) < self._max_running:
            sequence = next((s for s in self.waiting if s.num_due > 0), None)
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
        """True where the pool has blocks for all that the sequence has to compute; idle neighbours may lose theirs."""
        missing = self._table.num_missing_blocks(sequence, sequence.goal)
        idle = [s for s in self.running if s.num_due == 0]
        while missing > self._table.pool.num_free and idle:
            self._preempt(idle.pop())
        return missing <= self._table.pool.num_free

    def _reserve(self, sequence: Sequence, num_tokens: int, slices: list[Slice]) -> bool:
        """Finds blocks, preempting the sequences that came last; False where the sequence itself had to go."""
        length = sequence.num_computed + num_tokens
        if sequence not in self.running:
            return False
        while self._table.num_missing_blocks(sequence, length) > self._table.pool.num_free:
            victim = next(s for s in reversed(self.running) if s.block_table or s is sequence)
            self._preempt(victim)
            slices[:] = [piece for piece in slices if piece.sequence is not victim]
            if victim is sequence:
                return False
        self._table.reserve(sequence, length)
        return True

    def _preempt(self, sequence: Sequence) -> None:
        self._table.evict(sequence)
        self.running.remove(sequence)
        self.waiting.insert(0, sequence)
        self.num_preemptions += 1


def _chunk(sequence: Sequence, budget: int, max_rows: int) -> int:
    """Tokens of a prefill to take now; the positions whose logits are due stay together in the last chunk."""
    if sequence.num_due <= max(budget, sequence.num_logits):
        return sequence.num_due if sequence.num_due <= max_rows else 0
    return max(0, min(budget, sequence.num_due - sequence.num_logits))
