"""The λ rule: how far to draft so that tokens come fastest."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Pace:
    """A number of drafted tokens k ≥ 1, the tokens that its round brings, and its speed in multiples of plain decoding.

    k = 0 stands for "none can be had", with gain 0.
    """

    k: int
    num_tokens: float
    gain: float


NO_PACE = Pace(0, 0.0, 0.0)


def best_pace(acceptance: Callable[[int], float], round_s: Callable[[int], float], plain_s: float, limit: int) -> Pace:
    """The fastest of 1 … limit drafted tokens: τ_k / round_s(k), τ_k = 1 + Σ survival.

    Where a token more costs no less than the one before, this is the k up to which survival ≥ λ · (what the token
    costs), λ being the speed that results (Dinkelbach, 1967); costs have steps in them and may fall, so every k
    is tried.
    """
    survival, num_tokens, best = 1.0, 1.0, NO_PACE
    for k in range(1, limit + 1):
        survival *= acceptance(k - 1)
        num_tokens += survival
        speedup = plain_s / max(round_s(k), 1e-9)
        if num_tokens * speedup > best.gain:
            best = Pace(k, num_tokens, num_tokens * speedup)
    return best
