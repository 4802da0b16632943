"""A cache that remembers, for every slot, which prefix was written there, and checks each step against it."""

from forerun.engine.block_pool import BlockPool
from forerun.engine.scheduler import Scheduler
from forerun.engine.sequence import Sequence
from forerun.engine.sequence_table import SequenceTable

BLOCK_SIZE = 4
STEP_S = 0.03


class CacheWorld:
    """Runs the engine's bookkeeping on plain ints; a slot holds (salt, the tokens up to and including its own)."""

    def __init__(self, num_blocks, max_running=4, table_class=SequenceTable):
        self.pool = BlockPool(num_blocks, BLOCK_SIZE)
        self.table = table_class(self.pool, "model")
        self.now_s = 0.0
        self.scheduler = Scheduler(self.table, max_running, lambda: self.now_s)
        self.sequences = []
        self.content = {}

    def open(self, tokens, salt=""):
        sequence = Sequence(list(tokens), salt, num_committed=len(tokens))
        self.sequences.append(sequence)
        self.scheduler.add(sequence)
        return sequence

    def fork(self, parent, length, tokens, room):
        """An expendable sequence whose first logits are due; None where there is no room."""
        forked = self.table.fork(parent, length, tokens, room)
        if forked is None:
            return None
        sequence, source = forked
        if source is not None:
            copy = sequence.block_table[length // BLOCK_SIZE]
            assert self.pool.is_writable(copy)
            for offset in range(BLOCK_SIZE):
                self.content[copy, offset] = self.content.get((source, offset))
        self.sequences.append(sequence)
        self.scheduler.add_expendable(sequence)
        sequence.request(len(sequence.tokens), 1)
        return sequence

    def close(self, sequence):
        self.table.index_committed(sequence)
        self.scheduler.remove(sequence)
        self.sequences.remove(sequence)

    def step(self, max_rows=16, prefill=8):
        """Schedules and 'computes' one step; returns the slices as (sequence, num_tokens)."""
        waited = {s for s in self.scheduler.waiting if s.num_due > 0}
        slices = self.scheduler.schedule(max_rows, lambda rows: prefill)
        self.now_s += STEP_S
        for sequence in waited & set(self.scheduler.running):
            self._check_hit(sequence)
        for piece in slices:
            self._compute(piece.sequence, piece.num_tokens)
        for sequence in [s for s in self.scheduler.waiting if s.num_due > 0]:
            if sequence.expendable or self.table.num_missing_blocks(sequence, sequence.goal) > self.pool.num_blocks:
                self.close(sequence)
        return [(piece.sequence, piece.num_tokens) for piece in slices]

    def check(self):
        """All that must hold between any two operations."""
        self.pool.check_integrity()
        holders = [block for s in self.sequences for block in s.block_table]
        for block in range(self.pool.num_blocks):
            assert self.pool.ref_count(block) == holders.count(block), "a reference was lost or invented"
        for sequence in self.sequences:
            assert sequence.num_computed <= len(sequence.tokens)
            assert sequence.num_computed <= len(sequence.block_table) * BLOCK_SIZE
            assert len(set(sequence.block_table)) == len(sequence.block_table)
            self._check_content(sequence, sequence.num_computed)
            self._check_index(sequence)

    def _compute(self, sequence, num_tokens):
        start, end = sequence.num_computed, sequence.num_computed + num_tokens
        assert end <= len(sequence.tokens)
        for position in range(start, end):
            block = sequence.block_table[position // BLOCK_SIZE]
            assert self.pool.is_writable(block), "a shared or indexed block is written"
            self.content[block, position % BLOCK_SIZE] = _prefix(sequence, position + 1)
        self._check_content(sequence, end)
        sequence.num_computed = end
        self.table.index_committed(sequence)

    def _check_content(self, sequence, length):
        for position in range(length):
            slot = sequence.block_table[position // BLOCK_SIZE], position % BLOCK_SIZE
            assert self.content.get(slot) == _prefix(sequence, position + 1), "the cache holds another prefix"

    def _check_index(self, sequence):
        for index, block_hash in enumerate(sequence.block_hashes):
            block = self.pool.find(block_hash)
            if block is not None:
                held = self.content[block, BLOCK_SIZE - 1]
                assert held == _prefix(sequence, (index + 1) * BLOCK_SIZE), "an indexed block holds another prefix"

    def _check_hit(self, sequence):
        if sequence.num_cached_tokens is not None:
            assert sequence.num_cached_tokens <= (len(sequence.tokens) - 1) // BLOCK_SIZE * BLOCK_SIZE


def _prefix(sequence, length):
    return sequence.salt, tuple(sequence.tokens[:length])
