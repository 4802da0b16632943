"""Every other rank: does what rank 0 does, and keeps nothing of it but its share of the cache."""

from forerun.engine.ranks import orders
from forerun.engine.ranks.lines import Following
from forerun.engine.runner import Runner


def follow(runner: Runner, line: Following) -> None:
    """Returns when rank 0 says that it is over."""
    while (row := line.hear()) is not None:
        order = orders.decode(row)
        if isinstance(order, orders.Copy):
            runner.copy_blocks(order.sources, order.copies)
        else:
            runner.run_batch(order)
