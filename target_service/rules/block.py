"""block: verification of a proposal as a whole (arXiv 2403.10444), where a likely token makes up for one before it.

Accepts more tokens than rejection on average. Proposals, noise and refusals are those of rejection.
"""

from dataclasses import dataclass

import numpy as np

from forerun.sampling.draw import draw
from forerun.sampling.noise import TargetNoise
from forerun.types import Proposal, SparseLaw
from target_service.rules import LawAt, Outcome, rejection
from target_service.rules.rejection import Law, Noise, residual

NEGLIGIBLE = 2.0**-6  # a prefix this unlikely ends the proposal: under 1% of what is accepted for half of the laws


@dataclass(frozen=True, slots=True)
class Weighed:
    """A proposal, cut to its first len(laws) tokens, and how likely each of its prefixes is to be accepted.

    Given the first i tokens, at least i are accepted with probability reach[i] and more with probability beyond[i].
    laws[i] is the target's law `[V]` after them.
    """

    reach: list[float]
    beyond: list[float]
    laws: list[Law]


def verify(law_at: LawAt, proposal: Proposal, noise: Noise) -> Outcome:
    """Accepts the longest prefix that passes its test, then draws from (reach p - q)+, or from p after the whole."""
    base_len, weighed = proposal.base_len, weigh(law_at, proposal)
    num_accepted = whole = len(weighed.laws)
    while num_accepted and not passes(weighed, num_accepted, noise.acceptance(base_len + num_accepted - 1, base_len)):
        num_accepted -= 1
    if num_accepted == whole:
        rest = law_at(whole)
    else:
        rest = residual(weighed.reach[num_accepted] * weighed.laws[num_accepted], proposal.laws[num_accepted])
    return Outcome(num_accepted, draw(rest, noise.target(base_len + num_accepted, base_len)))


def passes(weighed: Weighed, i: int, u: float) -> bool:
    """Whether the first i tokens are accepted, given that no longer prefix was."""
    return u * (1 - weighed.beyond[i]) < weighed.reach[i] - weighed.beyond[i]


def weigh(law_at: LawAt, proposal: Proposal) -> Weighed:
    """Weighs the prefixes of a proposal; where it ends depends on the tokens up to there alone."""
    reach, beyond, laws = [1.0], list[float](), list[Law]()
    for i, (token, q) in enumerate(zip(proposal.tokens, proposal.laws, strict=True)):
        if reach[i] <= NEGLIGIBLE:
            break
        p = law_at(i)
        laws.append(p)
        beyond.append(overlap(reach[i], p, q))
        reach.append(min(reach[i] * ratio(p, q, token), 1.0))
    return Weighed(reach, [*beyond, 0.0], laws)


def overlap(scale: float, p: Law, q: SparseLaw) -> float:
    """Returns the sum over the vocabulary of min(scale p, q)."""
    known = q.ids < len(p)
    common = np.minimum(scale * p[q.ids[known]], q.weights[known] / q.weights.sum())
    return min(float(common.sum()), scale)


def ratio(p: Law, q: SparseLaw, token: int) -> float:
    """Returns p(token) / q(token); 0 for a token that the target lacks."""
    probability = float(p[token]) if token < len(p) else 0.0
    return probability * int(q.weights.sum()) / int(q.weights[q.ids == token][0])


class BlockRule:
    """The block rule with the noise of one sequence, keyed by base_len, position and lane."""

    def __init__(self, seed: int, choice: int, vocab_size: int) -> None:
        self._noise = TargetNoise(seed, choice)

    def refusal(self, proposal: Proposal) -> str:
        """See Rule.refusal."""
        return rejection.refusal(proposal, self._noise)

    def verify(self, law_at: LawAt, proposal: Proposal) -> Outcome:
        """See Rule.verify."""
        return verify(law_at, proposal, self._noise)
