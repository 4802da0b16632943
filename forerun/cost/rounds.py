"""The cost model of a round (docs/performance.md): what a pair's times and its draft's talent promise."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class CostModel:
    """Seconds. steps: T_v, a target's step by its number of rows. draft_step_s: t_d.

    What the wire and the hosts add: draft_trip_s and target_trip_s to the two parts of a round, whose sum is R, and
    plain_s to a token of the target alone.
    """

    steps: Mapping[int, float]
    draft_step_s: float
    draft_trip_s: float
    target_trip_s: float
    plain_s: float

    def round_s(self, k: int, hit_rate: float = 0.0) -> float:
        """A round of k drafted tokens. hit_rate: of proposals that were there before they were asked for."""
        asking_s = k * self.draft_step_s + self.draft_trip_s
        return (1 - hit_rate) * asking_s + self.steps[k + 1] + self.target_trip_s

    def plain_tokens_per_s(self) -> float:
        """Speed without a draft."""
        return 1 / (self.steps[1] + self.plain_s)

    def tokens_per_s(self, tokens_a_round: float, k: int, hit_rate: float = 0.0) -> float:
        """Speed of rounds of k drafted tokens that give so many on average."""
        return tokens_a_round / self.round_s(k, hit_rate) if k else self.plain_tokens_per_s()


def expected_tokens(acceptance: float, k: int) -> float:
    """Tokens of a round: the accepted ones and the target's own."""
    return k + 1.0 if acceptance == 1 else (1 - acceptance ** (k + 1)) / (1 - acceptance)
