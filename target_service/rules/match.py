"""match: the target draws its own keyed token at every position, and the proposal only saves it the waiting.

Gumbel coupling, arXiv 2408.07978: a draft that races its own law with the same noise often proposes that very token.
"""

from collections.abc import Callable

from forerun.sampling.draw import race
from forerun.sampling.noise import MatchNoise, derive_key
from forerun.types import Proposal
from target_service.rules import LawAt, Outcome


def verify(draw_at: Callable[[int], int], proposal: Proposal) -> Outcome:
    """Emits draw_at(i), the target's own token at base_len + i, for as long as it is the proposed one, and one more."""
    for i, token in enumerate(proposal.tokens):
        drawn = draw_at(i)
        if drawn != token:
            return Outcome(i, drawn)
    return Outcome(len(proposal.tokens), draw_at(len(proposal.tokens)))


class MatchRule:
    """The match rule with the noise of one sequence, keyed by position and token id: no draft can change its text."""

    def __init__(self, seed: int, choice: int, vocab_size: int) -> None:
        self._noise = MatchNoise(derive_key(seed, choice, "match"))
        self._vocab_size = vocab_size

    def refusal(self, proposal: Proposal) -> str:
        """Never refuses: whatever was proposed, only equality with the target's own draw counts."""
        return ""

    def verify(self, law_at: LawAt, proposal: Proposal) -> Outcome:
        """See Rule.verify."""

        def draw_at(i: int) -> int:
            return race(law_at(i), self._noise.raw(proposal.base_len + i, self._vocab_size))

        return verify(draw_at, proposal)
