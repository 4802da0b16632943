"""What every system is asked, and what it answers: token ids in, moments at which tokens came out."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

Arrivals = list[list[tuple[float, int]]]
"""For each prompt of a job the moments, in seconds on one clock, and how many tokens came at each."""


@dataclass(frozen=True)
class Job:
    """Prompts to be answered at once, each with exactly num_tokens tokens, ends of text ignored."""

    prompts: tuple[tuple[int, ...], ...]
    num_tokens: int
    temperature: float

    def as_json(self) -> dict[str, Any]:
        """For the wire; `from_json` is its inverse."""
        return asdict(self)

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> "Job":
        """Raises TypeError for other fields than a job's."""
        return cls(**{**fields, "prompts": tuple(tuple(ids) for ids in fields["prompts"])})


def decoding_rate(arrivals: Arrivals, num_tokens: int) -> float:
    """Tokens per second of all prompts together while all were decoding; prefill is not counted.

    Counted is what came after the last prompt's first tokens, until the first prompt was done. Raises ValueError
    where a prompt got another number of tokens than num_tokens, or where they never decoded all at once.
    """
    for pieces in arrivals:
        if (got := sum(count for _, count in pieces)) != num_tokens:
            raise ValueError(f"{got} tokens came where {num_tokens} were asked for")
    start, end = max(pieces[0][0] for pieces in arrivals), min(pieces[-1][0] for pieces in arrivals)
    if end <= start:
        raise ValueError("the prompts were answered one after the other")
    return sum(_between(pieces, start, end) for pieces in arrivals) / (end - start)


def _between(pieces: Sequence[tuple[float, int]], start: float, end: float) -> int:
    return sum(count for at, count in pieces if start < at <= end)
