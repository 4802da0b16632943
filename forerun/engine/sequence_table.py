"""What may be done to sequences: commit, truncate, reserve blocks, reuse prefixes, free."""

import hashlib
import itertools
from array import array
from collections import Counter
from collections.abc import Iterable

from forerun.engine.block_pool import BlockPool
from forerun.engine.sequence import Sequence


class SequenceTable:
    """Moves sequences between states and keeps their blocks in step; runs on the device thread only."""

    def __init__(self, pool: BlockPool, model_id: str) -> None:
        self.pool = pool
        self._model_id = model_id

    def commit(self, sequence: Sequence, base_len: int, ids: list[int]) -> int | None:
        """Makes the first base_len tokens + ids the committed transcript.

        Keeps the longest matching prefix of what is there, drafted tokens included, and truncates the
        rest only where it differs. Returns None, or the held length where fewer than base_len tokens are held.
        """
        held = len(sequence.tokens)
        if held < base_len:
            return held
        committed = base_len + len(ids)
        same = _num_equal(sequence.tokens, base_len, ids)
        if same < len(ids):
            self.truncate(sequence, base_len + same)
            sequence.tokens.extend(ids[same:])
        sequence.num_committed = max(committed, min(sequence.num_committed, len(sequence.tokens)))
        return None

    def truncate(self, sequence: Sequence, length: int) -> None:
        """Cuts the tokens to `length` and whatever the cache holds beyond it."""
        del sequence.tokens[length:]
        sequence.num_committed = min(sequence.num_committed, length)
        self.rewind(sequence, length)

    def rewind(self, sequence: Sequence, num_computed: int) -> None:
        """Has the tokens from num_computed on computed again.

        A block that is shared or indexed is never written: where the cut lies inside one, the sequence
        lets go of it and computes that block's tokens anew.
        """
        size = self.pool.block_size
        keep = min(num_computed, sequence.num_computed)
        if keep % size and not self.pool.is_writable(sequence.block_table[keep // size]):
            keep -= keep % size
        sequence.num_computed = keep
        del sequence.block_hashes[keep // size :]
        self._release_from(sequence, -(-keep // size))
        sequence.rest()

    def demand(self, sequence: Sequence, num_logits: int) -> None:
        """Asks for all tokens to be computed and the logits of the last num_logits, anew where need be."""
        if num_logits:
            self.rewind(sequence, len(sequence.tokens) - num_logits)
        sequence.request(len(sequence.tokens), num_logits)

    def reuse_prefix(self, sequence: Sequence) -> None:
        """Takes the computed blocks of an equal prefix for a sequence that holds none; one token at least stays due."""
        if sequence.block_table or not sequence.reuse_prefix:
            return
        size = self.pool.block_size
        free_of_logits = sequence.goal - sequence.num_logits
        for index in range(min(sequence.num_committed - 1, len(sequence.tokens) - 1, free_of_logits) // size):
            block_hash = self._hash(sequence, index)
            block = self.pool.find(block_hash)
            if block is None:
                break
            self.pool.share(block)
            sequence.block_table.append(block)
            sequence.block_hashes.append(block_hash)
            sequence.num_computed += size

    def fork(self, parent: Sequence, length: int, tokens: list[int], room: int) -> tuple[Sequence, int | None] | None:
        """An expendable sequence of parent's first `length` tokens and `tokens`, as far computed as those are.

        It has blocks for `room` tokens in all and shares the parent's full ones. Also the parent's block whose content
        is to be copied into the fork's at the same place, if there is one. None where blocks or computed tokens lack.
        """
        size = self.pool.block_size
        shared = length // size
        if parent.num_computed < length or -(-room // size) - shared > self.pool.num_free:
            return None
        fork = Sequence(
            parent.tokens[:length] + tokens,
            parent.salt,
            num_committed=min(parent.num_committed, length),
            num_computed=length,
            block_table=parent.block_table[:shared],
            block_hashes=parent.block_hashes[:shared],
            expendable=True,
        )
        for block in fork.block_table:
            self.pool.share(block)
        self.reserve(fork, room)
        return fork, parent.block_table[shared] if length % size else None

    def num_missing_blocks(self, sequence: Sequence, length: int) -> int:
        """Blocks to allocate before the first `length` tokens have a place."""
        return max(0, -(-length // self.pool.block_size) - len(sequence.block_table))

    def reserve(self, sequence: Sequence, length: int) -> None:
        """Gives the first `length` tokens a place. Raises Overloaded when the pool is out of blocks."""
        for _ in range(self.num_missing_blocks(sequence, length)):
            sequence.block_table.append(self.pool.allocate())

    def index_committed(self, sequence: Sequence) -> None:
        """Offers the full, computed, committed blocks that are not offered yet."""
        size = self.pool.block_size
        full = min(sequence.num_computed, sequence.num_committed) // size
        for index in range(len(sequence.block_hashes), full):
            block_hash = self._hash(sequence, index)
            sequence.block_hashes.append(block_hash)
            self.pool.index(sequence.block_table[index], block_hash)

    def disown(self, sequence: Sequence) -> None:
        """Takes back the offer of all its blocks, for a sequence whose content cannot be trusted."""
        for block in sequence.block_table:
            self.pool.withdraw(block)
        sequence.num_committed = 0

    def num_freeable_blocks(self, sequences: Iterable[Sequence]) -> int:
        """Blocks that nobody but these holds."""
        held = Counter(block for sequence in sequences for block in sequence.block_table)
        return sum(self.pool.ref_count(block) == count for block, count in held.items())

    def evict(self, sequence: Sequence) -> None:
        """Frees all blocks; the tokens stay and will be computed again when they are next needed."""
        is_idle = sequence.num_due == 0
        self._release_from(sequence, 0)
        sequence.block_hashes.clear()
        sequence.num_computed = 0
        if is_idle:
            sequence.rest()

    def _release_from(self, sequence: Sequence, index: int) -> None:
        for block in reversed(sequence.block_table[index:]):
            self.pool.release(block)
        del sequence.block_table[index:]

    def _hash(self, sequence: Sequence, index: int) -> bytes:
        """SHA-256 chained over (model, salt, ids): equal hashes mean equal prefixes."""
        size = self.pool.block_size
        parent = sequence.block_hashes[index - 1] if index else f"{self._model_id}\0{sequence.salt}".encode()
        ids = array("I", sequence.tokens[index * size : (index + 1) * size]).tobytes()
        return hashlib.sha256(parent + ids).digest()


def _num_equal(tokens: list[int], start: int, ids: list[int]) -> int:
    pairs = zip(itertools.islice(tokens, start, start + len(ids)), ids, strict=False)
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))
