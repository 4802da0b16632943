"""Any order of operations on pool, table and scheduler keeps the cache true (cases 26 and 28)."""

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from forerun.engine.sequence_table import SequenceTable
from tests.unit.engine.cache_world import BLOCK_SIZE, CacheWorld

STEM = [0, 1, 1, 0, 1, 0, 0, 1, 1, 0, 0, 1, 0, 1]
LETTERS = st.integers(0, 1)
MOST_TOKENS = 40


class BlockMachine(RuleBasedStateMachine):
    """Sequences that share a stem, so that prefixes meet often, in a pool too small for all of them."""

    table_class = SequenceTable

    @initialize(num_blocks=st.integers(2, 12), max_running=st.integers(1, 4))
    def start(self, num_blocks, max_running):
        self.world = CacheWorld(num_blocks, max_running, self.table_class)
        self.rooms = {}

    @precondition(lambda self: len(self.world.sequences) < 6)
    @rule(stem=st.integers(0, len(STEM)), tail=st.lists(LETTERS, max_size=3), salt=st.sampled_from(["", "salted"]))
    def open(self, stem, tail, salt):
        sequence = self.world.open(STEM[:stem] + tail or [0], salt)
        self.world.table.demand(sequence, 1)

    @precondition(lambda self: any(not s.expendable for s in self.world.sequences))
    @rule(data=st.data())
    def close(self, data):
        self.world.close(self._any(data))

    @precondition(lambda self: any(not s.expendable for s in self.world.sequences))
    @rule(data=st.data(), drafted=st.lists(LETTERS, max_size=5))
    def draft(self, data, drafted):
        sequence = self._any(data)
        if len(sequence.tokens) + len(drafted) <= MOST_TOKENS:
            sequence.tokens.extend(drafted)
            self.world.table.demand(sequence, min(len(drafted) + 1, len(sequence.tokens)))

    @precondition(lambda self: any(not s.expendable for s in self.world.sequences))
    @rule(data=st.data(), ids=st.lists(LETTERS, min_size=1, max_size=6), matching=st.integers(0, 6))
    def commit(self, data, ids, matching):
        """ids that follow what is there for `matching` tokens, and may differ after it; base_len may be too long."""
        sequence = self._any(data)
        tokens = sequence.tokens
        base_len = data.draw(st.integers(0, min(len(tokens) + 1, MOST_TOKENS - len(ids))), label="base_len")
        ids = tokens[base_len : base_len + matching] + ids[matching:]
        expected = tokens[:base_len] + ids
        held = self.world.table.commit(sequence, base_len, ids)
        if base_len > len(tokens) and held is not None:
            assert held == len(tokens)
            return
        assert sequence.tokens[: len(expected)] == expected
        assert sequence.num_committed >= len(expected)

    @precondition(lambda self: any(not s.expendable for s in self.world.sequences))
    @rule(data=st.data())
    def truncate(self, data):
        sequence = self._any(data)
        length = data.draw(st.integers(1, len(sequence.tokens)), label="length")
        expected = sequence.tokens[:length]
        self.world.table.truncate(sequence, length)
        assert sequence.tokens == expected

    @precondition(lambda self: any(not s.expendable for s in self.world.sequences))
    @rule(data=st.data(), ahead=st.integers(0, 4))
    def request_without_logits(self, data, ahead):
        sequence = self._any(data)
        sequence.request(max(0, len(sequence.tokens) - ahead), num_logits=0)

    @precondition(lambda self: any(not s.expendable for s in self.world.sequences) and len(self.world.sequences) < 9)
    @rule(data=st.data(), letter=LETTERS, num_drafted=st.integers(0, 5))
    def fork(self, data, letter, num_drafted):
        parent = self._any(data)
        length = data.draw(st.integers(1, len(parent.tokens)), label="length")
        room = length + 1 + num_drafted
        num_free = self.world.pool.num_free
        fork = self.world.fork(parent, length, [letter], room)
        if fork is None:
            assert parent.num_computed < length or num_free < -(-room // BLOCK_SIZE) - length // BLOCK_SIZE
            return
        assert fork.tokens == [*parent.tokens[:length], letter] and fork.num_due == 1
        self.rooms[fork] = room

    @precondition(lambda self: any(s.expendable for s in self.world.sequences))
    @rule(data=st.data(), letter=LETTERS)
    def draft_on_a_fork(self, data, letter):
        fork = data.draw(st.sampled_from([s for s in self.world.sequences if s.expendable]), label="fork")
        if len(fork.tokens) < self.rooms[fork] and fork.block_table:
            fork.tokens.append(letter)
            fork.request(len(fork.tokens), 1)
            assert self.world.table.num_missing_blocks(fork, fork.goal) == 0

    @precondition(lambda self: any(s.expendable for s in self.world.sequences))
    @rule(data=st.data())
    def adopt(self, data):
        fork = data.draw(st.sampled_from([s for s in self.world.sequences if s.expendable]), label="fork")
        fork.expendable = False

    @rule(max_rows=st.integers(4, 24), prefill=st.integers(0, 12), num_steps=st.integers(1, 4))
    def steps(self, max_rows, prefill, num_steps):
        for _ in range(num_steps):
            self.world.step(max_rows, prefill)
            self.world.check()

    @invariant()
    def holds(self):
        self.world.check()

    def teardown(self):
        if not hasattr(self, "world"):
            return
        for sequence in list(self.world.sequences):
            self.world.close(sequence)
        self.world.check()
        assert self.world.pool.num_free == self.world.pool.num_blocks

    def _any(self, data):
        """One that is nobody's fork; there is one wherever there is any."""
        dear = [sequence for sequence in self.world.sequences if not sequence.expendable]
        return data.draw(st.sampled_from(dear), label="sequence")


BlockMachine.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
TestTheBlocksStayTrueWhateverHappens = BlockMachine.TestCase


class TruncatesInPlace(SequenceTable):
    """The fault: a cut inside a shared or indexed block keeps the block, and the next tokens are written into it."""

    def rewind(self, sequence, num_computed):
        keep = min(num_computed, sequence.num_computed)
        size = self.pool.block_size
        sequence.num_computed = keep
        del sequence.block_hashes[keep // size :]
        self._release_from(sequence, -(-keep // size))
        sequence.rest()


class KeepsItsComputedTokens(SequenceTable):
    """The fault: rejected drafts stay in the cache (case 26)."""

    def truncate(self, sequence, length):
        num_computed, table = sequence.num_computed, list(sequence.block_table)
        del sequence.tokens[length:]
        sequence.num_committed = min(sequence.num_committed, length)
        sequence.num_computed, sequence.block_table = min(num_computed, length + 1), table


class SharesTheUnfinishedBlock(SequenceTable):
    """The fault: a fork writes into the block that its parent's last tokens lie in."""

    def fork(self, parent, length, tokens, room):
        forked = super().fork(parent, length, tokens, room)
        if forked is None or forked[1] is None:
            return forked
        sequence, source = forked
        place = length // self.pool.block_size
        self.pool.release(sequence.block_table[place])
        self.pool.share(source)
        sequence.block_table[place] = source
        return sequence, None


class IgnoresTheSalt(SequenceTable):
    """The fault: one caller's prefix is found by another."""

    def _hash(self, sequence, index):
        salt, sequence.salt = sequence.salt, ""
        try:
            return super()._hash(sequence, index)
        finally:
            sequence.salt = salt


class HashesBlocksAlone(SequenceTable):
    """The fault: a block is found by its own tokens, whatever stood before it."""

    def _hash(self, sequence, index):
        hashes, sequence.block_hashes = sequence.block_hashes, [b""] * (index + 1)
        try:
            return super()._hash(sequence, 1) if index == 1 else bytes(sequence.tokens[index * 4 : index * 4 + 4])
        finally:
            sequence.block_hashes = hashes


@pytest.mark.parametrize(
    "fault", [TruncatesInPlace, KeepsItsComputedTokens, SharesTheUnfinishedBlock, IgnoresTheSalt, HashesBlocksAlone]
)
def test_a_table_that_breaks_a_rule_is_caught(fault):
    class Machine(BlockMachine):
        table_class = fault

    quick = settings(
        max_examples=300, stateful_step_count=40, deadline=None, database=None, derandomize=True,
        phases=[Phase.generate], report_multiple_bugs=False, print_blob=False,
    )  # fmt: skip
    with pytest.raises((AssertionError, RuntimeError)):
        run_state_machine_as_test(Machine, settings=quick)
