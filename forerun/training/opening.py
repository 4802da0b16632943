"""How a text begins, and what the target writes of it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Turn:
    """Something that the target writes until it ends it, or until max_tokens.

    scored: whether the laws are kept. then: the ids that follow, where it ended and another turn comes.
    """

    max_tokens: int
    temperature: float
    scored: bool = True
    then: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Opening:
    """The ids that stand before the first token that the target writes, and its turns."""

    ids: tuple[int, ...]
    turns: tuple[Turn, ...]
