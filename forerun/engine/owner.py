"""Whom the device computes a sequence for, and what it is told of a step."""

from dataclasses import dataclass
from typing import Any, Protocol

NOT_FINITE = "the model's logits are not finite"


@dataclass(frozen=True, slots=True)
class StepReport:
    """One finished forward. num_rows: tokens computed; num_queued: sequences left waiting; owners: whom it served.

    start_ns: of the wall clock, for traces; end_ns lies a measured duration behind it.
    """

    start_ns: int
    end_ns: int
    num_rows: int
    num_queued: int
    owners: tuple["Owner", ...]

    @property
    def step_s(self) -> float:
        return (self.end_ns - self.start_ns) / 1e9


class Owner(Protocol):
    """Whom a sequence is computed for. Every method runs on the device thread and may request more of its sequence."""

    def on_logits(self, logits: Any, step: StepReport) -> None:
        """The sequence reached its goal; logits `[num_logits, head size] float32` of its last positions.

        A sequence with best_of may get logits.Best instead.
        """
        ...

    def on_starved(self, reason: str) -> None:
        """The sequence has work due and no room in this step; called for every such step."""
        ...

    def on_overflow(self) -> None:
        """The logits are not finite, and nobody may build on what was computed: asks for less, or raises."""
        ...

    def on_fault(self, error: Exception) -> None:
        """The sequence cannot go on; it has been removed."""
        ...
