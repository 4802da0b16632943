"""What is asked for: requests, their lengths, how often a draft is right, and how fast answers must come."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from forerun.errors import ConfigError


@dataclass(frozen=True)
class Acceptance:
    """by_position: how often a drafted token is right where those before it were; the last holds for all further."""

    by_position: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.by_position or any(not 0 <= each <= 1 for each in self.by_position):
            raise ConfigError(f"acceptance {self.by_position} is not a list of shares from 0 to 1, such as 0.8,0.75")

    def at(self, position: int) -> float:
        """The chance of that token, counted from 0, given those before it."""
        return self.by_position[min(position, len(self.by_position) - 1)]

    def num_tokens(self, k: int) -> float:
        """Tokens of a round of k drafted ones: the accepted and the target's own."""
        return 1 + sum(math.prod(map(self.at, range(n))) for n in range(1, k + 1))


@dataclass(frozen=True)
class Workload:
    """Means. length_cv: standard deviation over mean of both lengths. Raises ConfigError for what cannot be."""

    rate: float
    prompt_len: float
    answer_len: float
    acceptance: Acceptance
    length_cv: float = 0.5

    def __post_init__(self) -> None:
        for name, least in (("rate", 0.0), ("prompt_len", 1.0), ("answer_len", 2.0)):
            if not (value := getattr(self, name)) >= least or math.isinf(value) or value == 0:
                raise ConfigError(f"{name} is {value:g}; it must be a number of at least {least or 'more than 0'}")
        if not 0 <= self.length_cv <= 2:
            raise ConfigError(f"length_cv is {self.length_cv:g}; it must lie between 0 and 2")

    @property
    def decoding_context_len(self) -> float:
        """The mean context of sequences that decode at a moment; long answers are met more often."""
        return self.prompt_len + self.answer_len * (1 + self.length_cv**2) / 2


@dataclass(frozen=True)
class Goals:
    """Seconds that a request's first token, and each further one on average, may take."""

    ttft_s: float
    tpot_s: float

    def __post_init__(self) -> None:
        if not (self.ttft_s > 0 and self.tpot_s > 0):
            raise ConfigError(f"goals must be above 0; got TTFT {self.ttft_s:g} s and TPOT {self.tpot_s:g} s")


def parse_acceptance(text: str) -> Acceptance:
    """From "0.8,0.75". Raises ConfigError for anything else."""
    try:
        values: Sequence[float] = [float(part) for part in text.split(",")]
    except ValueError as error:
        raise ConfigError(f"acceptance {text!r} is not a list of numbers such as 0.8,0.75,0.7") from error
    return Acceptance(tuple(values))
