"""A moving average."""

WEIGHT = 0.2  # of a new measurement


class Ema:
    """A moving average that starts at its first value; None before."""

    def __init__(self, weight: float = WEIGHT) -> None:
        self.value: float | None = None
        self._weight = weight

    def add(self, x: float) -> None:
        """Takes one measurement."""
        self.value = x if self.value is None else self.value + self._weight * (x - self.value)

    def or_else(self, default: float) -> float:
        """The average, `default` before the first measurement."""
        return default if self.value is None else self.value
