"""Rank 0's runner: tells the other ranks what it is about to compute, and computes its part."""

from collections.abc import Sequence

from forerun.engine.batch import flatten
from forerun.engine.logits import StepLogits
from forerun.engine.ranks import orders
from forerun.engine.ranks.lines import Leading
from forerun.engine.runner import Runner
from forerun.engine.scheduler import Slice


class LeadingRunner:
    """A runner for the engine's loop over `runner`, this rank's own; after `stop` the other ranks end."""

    def __init__(self, runner: Runner, line: Leading, block_size: int) -> None:
        self._runner, self._line, self._block_size = runner, line, block_size

    def run(self, slices: Sequence[Slice]) -> StepLogits:
        batch = flatten(slices, self._block_size)
        self._line.tell(orders.encode(batch))
        return self._runner.run_batch(batch)

    def copy_blocks(self, sources: Sequence[int], copies: Sequence[int]) -> None:
        self._line.tell(orders.encode(orders.Copy(tuple(sources), tuple(copies))))
        self._runner.copy_blocks(sources, copies)

    def stop(self) -> None:
        """Call once the engine's loop has ended."""
        self._line.close()
