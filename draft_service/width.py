"""How many branches there is time for until the verdict comes."""

FIRST = 8.0
GROWTH, SHRINKAGE = 0.15, 0.85  # near the width at which one set of branches in ten comes late


class Width:
    """Grows while branches are out before the next message, shrinks where one is not. Device thread only.

    It follows from times alone, never from what a branch holds.
    """

    def __init__(self) -> None:
        self._value = FIRST

    def within(self, num_branches: int) -> int:
        """Of so many branches that are asked for, how many to begin."""
        return min(num_branches, int(self._value))

    def saw(self, num_asked: int, in_time: bool) -> None:
        """A set of branches was overtaken, all of it pushed by then or not; num_asked bounds what is ever tried."""
        if not in_time:
            self._value = max(1.0, SHRINKAGE * self._value)
        elif self._value < num_asked:
            self._value += GROWTH
