"""One sequence's draws: from a row of the draft's logits to a token and the law that it was drawn from."""

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from forerun.sampling.draw import draw_sparse, race, truncate
from forerun.sampling.noise import DraftNoise, MatchNoise
from forerun.sampling.processors import Processors
from forerun.types import SamplingParams, SparseLaw

NUM_POSITIONS = 8  # whose noise is kept


@dataclass(frozen=True, slots=True)
class Drawn:
    """A drafted token, the law that it was drawn from where the rule needs it, and its probability q there.

    Where no law is needed q is how sure the draft is, and no more than that; NaN where nobody wants to know.
    """

    token: int
    law: SparseLaw | None
    q: float


@dataclass(frozen=True, slots=True)
class Guesses:
    """What the target may put at a position: the drafted token, of probability q, or one of the others, best first."""

    token: int
    q: float
    others: tuple[int, ...]


class Drawer(Protocol):
    """Bound to one sequence's parameters and noise key."""

    def draw(self, logits: np.ndarray, context: list[int], base_len: int, wants_q: bool = True) -> Drawn:
        """Drafts the token after `context` from logits `[≥ columns] float32`, padding last."""
        ...

    def guess(self, logits: np.ndarray, context: list[int], num_others: int, token: int | None) -> Guesses:
        """The target's token after `context`; `token` is what was drafted there, None where nothing was."""
        ...


def drawer(
    params: SamplingParams, num_prompt_tokens: int, noise_key: bytes, columns: np.ndarray, num_support: int
) -> Drawer:
    """The drawer for `params`. columns `[columns] int64`: the token id of each logit."""
    processors = Processors(params, num_prompt_tokens, columns)
    if params.verification.needs_laws:
        return RejectionDrawer(processors, DraftNoise(noise_key), columns, num_support)
    if processors.is_greedy:
        return GreedyDrawer(processors, columns)
    return CoupledDrawer(processors, MatchNoise(noise_key), columns)


class RejectionDrawer:
    """Truncates the law before it draws, and reports exactly what it drew from."""

    def __init__(self, processors: Processors, noise: DraftNoise, columns: np.ndarray, num_support: int) -> None:
        self._processors = processors
        self._noise = noise
        self._columns = columns
        self._num_support = num_support

    def draw(self, logits: np.ndarray, context: list[int], base_len: int, wants_q: bool = True) -> Drawn:
        law = truncate(self._processors.law(logits[: len(self._columns)], context), self._num_support, self._columns)
        token = draw_sparse(law, self._noise.draft(len(context), base_len))
        return Drawn(token, law, float(law.weights[law.ids == token].sum() / law.weights.sum()))

    def guess(self, logits: np.ndarray, context: list[int], num_others: int, token: int | None) -> Guesses:
        law = self._processors.law(logits[: len(self._columns)], context)
        return _guesses(law, -law, self._columns, num_others, token)


class GreedyDrawer:
    """The likeliest token."""

    def __init__(self, processors: Processors, columns: np.ndarray) -> None:
        self._processors = processors
        self._columns = columns

    def draw(self, logits: np.ndarray, context: list[int], base_len: int, wants_q: bool = True) -> Drawn:
        known = logits[: len(self._columns)]
        column = self._processors.greedy_column(known, context)
        if not wants_q:
            return Drawn(int(self._columns[column]), None, math.nan)
        weights = np.exp(known - known.max())
        return Drawn(int(self._columns[column]), None, float(weights[column] / weights.sum()))

    def guess(self, logits: np.ndarray, context: list[int], num_others: int, token: int | None) -> Guesses:
        law = self._processors.unfiltered(logits[: len(self._columns)], context)
        return _guesses(law, -law, self._columns, num_others, token)


class CoupledDrawer:
    """Runs the target's own race on the draft's law, with the same noise: the winner is often the same."""

    def __init__(self, processors: Processors, noise: MatchNoise, columns: np.ndarray) -> None:
        self._processors = processors
        self._noise = noise
        self._columns = columns
        self._num_ids = int(columns.max()) + 1
        self._raws: dict[int, np.ndarray] = {}

    def draw(self, logits: np.ndarray, context: list[int], base_len: int, wants_q: bool = True) -> Drawn:
        law = self._processors.law(logits[: len(self._columns)], context)
        column = race(law, self._raw(context))
        return Drawn(int(self._columns[column]), None, float(law[column]))

    def guess(self, logits: np.ndarray, context: list[int], num_others: int, token: int | None) -> Guesses:
        """The target runs the same race on a law like this one: the first behind the winner are its likely winners."""
        law = self._processors.unfiltered(logits[: len(self._columns)], context)
        with np.errstate(divide="ignore", invalid="ignore"):
            times = -np.log1p(-(self._raw(context) * 2.0**-64)) / law
        return _guesses(law, np.nan_to_num(times, nan=np.inf), self._columns, num_others, token)

    def _raw(self, context: list[int]) -> np.ndarray:
        """Half of a draw's time goes into the noise, and branches of one sequence meet at the same positions."""
        position = len(context)
        if position not in self._raws:
            if len(self._raws) >= NUM_POSITIONS:
                del self._raws[next(iter(self._raws))]
            self._raws[position] = self._noise.raw(position, self._num_ids)[self._columns]
        return self._raws[position]


def _guesses(law: np.ndarray, rank: np.ndarray, columns: np.ndarray, num_others: int, token: int | None) -> Guesses:
    """Tokens of least `rank` first; where none was drafted the very first stands for it."""
    num = min(num_others + 1, len(columns))
    first = np.argpartition(rank, num - 1)[:num]
    ids = columns[first[np.argsort(rank[first], kind="stable")]].tolist()
    token = ids[0] if token is None else token
    q = float(law[columns == token].sum())
    return Guesses(token, q, tuple(other for other in ids if other != token)[:num_others])
