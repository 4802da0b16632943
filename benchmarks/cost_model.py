"""The cost model of a round (docs/performance.md): what a pair's times and its draft's talent promise."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class CostModel:
    """Seconds: of a draft step, of a target's step over m rows, and of all else, with and without a draft.

    steps: T_v by the number of rows. round_s: R of a round. plain_s: what a token alone costs beyond its step.
    """

    draft_step_s: float
    steps: Mapping[int, float]
    round_s: float
    plain_s: float

    def plain_tokens_per_s(self) -> float:
        """Speed without a draft."""
        return 1 / (self.steps[1] + self.plain_s)

    def tokens_per_s(self, acceptance: float, k: int) -> float:
        """Speed of synchronous rounds of k drafted tokens, each right with probability `acceptance`."""
        if k == 0:
            return self.plain_tokens_per_s()
        return expected_tokens(acceptance, k) / (k * self.draft_step_s + self.steps[k + 1] + self.round_s)

    def best_k(self, acceptance: float) -> int:
        """The K with the greatest speed, 0 among them."""
        return max(range(max(self.steps)), key=lambda k: self.tokens_per_s(acceptance, k))


def expected_tokens(acceptance: float, k: int) -> float:
    """Tokens of a round: the accepted ones and the target's own."""
    return k + 1.0 if acceptance == 1 else (1 - acceptance ** (k + 1)) / (1 - acceptance)
