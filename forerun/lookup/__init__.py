"""Drafting without a model: what followed when the text last stood where it stands now. Plain Python, no torch."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Place:
    """An earlier place at which the text ended in the same `length` tokens; what followed begins at `start`."""

    start: int
    length: int


class Lookup(Protocol):
    """Reads a text token by token and finds the place that it repeats at present."""

    def read(self, token: int) -> None:
        """The text goes on with `token`."""
        ...

    def place(self) -> Place | None:
        """The earlier place that the end of the text repeats, None where it repeats none."""
        ...


def continuation(text: Sequence[int], place: Place, k: int) -> tuple[int, ...]:
    """What followed `place`, k tokens; where that reaches the end of the text, the text goes round."""
    period = len(text) - place.start
    if k <= period:
        return tuple(text[place.start : place.start + k])
    return tuple(text[place.start + i % period] for i in range(k))
