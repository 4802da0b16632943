"""A service's loop by formula: mean steps where prompts are computed beside sequences that decode."""

import math
from collections.abc import Callable
from dataclasses import dataclass

from forerun.engine.budget import MIN_CHUNK
from forerun.planning.site import Engine
from forerun.planning.steps import Batch, Steps

_REFINEMENTS = 6
_GRAIN = 0.02  # of the logarithm: so far apart are the numbers of sequences at which a step is priced


@dataclass(frozen=True, slots=True)
class Step:
    """decode_s: with no prompt in it. full_s: with as many prompt rows, `chunk`, as the engine's stretch allows."""

    decode_s: float
    full_s: float
    chunk: float

    def mean_s(self, prompting: float, other_s: float = 0.0) -> float:
        """From one step to the next where a prompt is there for that share of the time; other_s passes in between."""
        full, bare = self.full_s + other_s, self.decode_s + other_s
        return 1 / (prompting / full + (1 - prompting) / bare)


class Loop:
    """One service's steps at the workload's contexts."""

    def __init__(self, steps: Steps, engine: Engine, context_len: float, prompt_len: float) -> None:
        self._steps, self._engine = steps, engine
        self._context_len, self._prompt_len = context_len, prompt_len
        self._known: dict[tuple[int, int], Step] = {}
        self.prompt_s = steps.prompt_s(prompt_len, engine.max_chunk)

    def step(self, num_sequences: float, rows_each: int) -> Step:
        """A step over so many sequences, to one in a hundred."""
        key = (round(math.log(num_sequences) / _GRAIN), rows_each)
        if key not in self._known:
            self._known[key] = self._priced(math.exp(key[0] * _GRAIN), rows_each)
        return self._known[key]

    def prompting(self, step: Step, tokens_per_s: float, idle: float, other_s: float = 0.0) -> float:
        """The share of the time in which a prompt is being computed; 1 and more where they come too fast.

        idle: the share in which nothing decodes, and a prompt has the device for itself.
        """
        return tokens_per_s * self.prompt_token_s(step, idle, other_s)

    def prompt_token_s(self, step: Step, idle: float, other_s: float = 0.0) -> float:
        """Seconds a prompt token, from a prompt's turn to its end."""
        return idle * self.prompt_s / self._prompt_len + (1 - idle) * (step.full_s + other_s) / step.chunk

    def _priced(self, num_sequences: float, rows_each: int) -> Step:
        def seconds(prompt_rows: float) -> float:
            prompt = (prompt_rows, self._prompt_len / 2)
            return self._steps.seconds(Batch(num_sequences, rows_each, self._context_len, *prompt))

        decode_s = seconds(0)
        chunk = most_rows(seconds, (1 + self._engine.stretch) * decode_s, self._engine.max_chunk)
        return Step(decode_s, seconds(chunk), chunk)


def most_rows(seconds: Callable[[float], float], limit_s: float, max_rows: int) -> float:
    """The most rows, at least MIN_CHUNK, that take no longer than limit_s; seconds is convex and grows (Newton)."""
    rows = float(max_rows)
    for _ in range(_REFINEMENTS):
        over = seconds(rows) - limit_s
        if over <= 0 or rows <= MIN_CHUNK:
            break
        slope = seconds(rows) - seconds(rows - 1)
        rows = max(rows - over / max(slope, 1e-12), MIN_CHUNK)
    return rows
