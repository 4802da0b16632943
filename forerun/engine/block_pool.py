"""A pool of fixed-size cache blocks with reference counts and an index of reusable prefixes."""

from collections import OrderedDict

from forerun.errors import Overloaded


class BlockPool:
    """Every block is free (count 0) or used (count ≥ 1); an indexed block keeps its content while it is free.

    Free blocks are taken oldest first, so the prefixes used last survive longest.
    """

    def __init__(self, num_blocks: int, block_size: int) -> None:
        self.num_blocks = num_blocks
        self.block_size = block_size
        self._ref_counts = [0] * num_blocks
        self._hash_of: dict[int, bytes] = {}
        self._block_of: dict[bytes, int] = {}
        self._free: OrderedDict[int, None] = OrderedDict.fromkeys(range(num_blocks))

    @property
    def num_free(self) -> int:
        return len(self._free)

    def allocate(self) -> int:
        """Takes a free block and forgets what it held. Raises Overloaded when none is free."""
        if not self._free:
            raise Overloaded(f"all {self.num_blocks} cache blocks are in use")
        block, _ = self._free.popitem(last=False)
        self.withdraw(block)
        self._ref_counts[block] = 1
        return block

    def find(self, block_hash: bytes) -> int | None:
        """The block that holds this prefix block, used or free."""
        return self._block_of.get(block_hash)

    def share(self, block: int) -> None:
        """Adds a reference; a free indexed block comes back into use."""
        if self._ref_counts[block] == 0:
            del self._free[block]
        self._ref_counts[block] += 1

    def release(self, block: int) -> None:
        """Drops a reference; the last one frees the block."""
        self._ref_counts[block] -= 1
        if self._ref_counts[block] == 0:
            self._free[block] = None
            if block not in self._hash_of:
                self._free.move_to_end(block, last=False)

    def index(self, block: int, block_hash: bytes) -> None:
        """Offers a full, committed block to later sequences; the first block with a hash keeps it."""
        if block_hash not in self._block_of and block not in self._hash_of:
            self._block_of[block_hash] = block
            self._hash_of[block] = block_hash

    def withdraw(self, block: int) -> None:
        """No later sequence will find it."""
        block_hash = self._hash_of.pop(block, None)
        if block_hash is not None:
            del self._block_of[block_hash]

    def is_writable(self, block: int) -> bool:
        """True where one sequence alone holds it and no later one may count on its content."""
        return self._ref_counts[block] == 1 and block not in self._hash_of

    def ref_count(self, block: int) -> int:
        return self._ref_counts[block]

    def check_integrity(self) -> None:
        """Raises RuntimeError where a block is both free and used, lost, released too often, or indexed twice."""
        free = set(self._free)
        used = {block for block, count in enumerate(self._ref_counts) if count > 0}
        if free & used or len(free | used) != self.num_blocks or min(self._ref_counts) < 0:
            raise RuntimeError(f"blocks free and used at once: {free & used}; of {self.num_blocks}: {free | used}")
        if {block: block_hash for block_hash, block in self._block_of.items()} != self._hash_of:
            raise RuntimeError("the prefix index is not one to one")
