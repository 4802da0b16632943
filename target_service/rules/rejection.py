"""rejection: speculative sampling (arXiv 2211.17192, 2302.01318) with the draft's law given sparsely.

Exact for any draft that draws from the law it reports; the redraw in `refusal` finds bugs, not liars.
"""

from typing import Protocol

import numpy as np
import numpy.typing as npt

from forerun.sampling.draw import draw, draw_sparse
from forerun.sampling.noise import TargetNoise
from forerun.types import Proposal, SparseLaw
from target_service.rules import LawAt, Outcome

Law = npt.NDArray[np.float64]

MIN_RESIDUAL_MASS = 1e-12  # below it, (p - q)+ is rounding error and the laws are the same
MAX_WEIGHT = (1 << 32) - 1


class Noise(Protocol):
    """Independent uniforms in [0, 1) for every (position, base_len) in each of three lanes."""

    def draft(self, position: int, base_len: int) -> float: ...

    def acceptance(self, position: int, base_len: int) -> float: ...

    def target(self, position: int, base_len: int) -> float: ...


def verify(law_at: LawAt, proposal: Proposal, noise: Noise) -> Outcome:
    """Accepts x while u w(x) < W p(x), then draws from (p - q)+ after a rejection or from p after none."""
    base_len = proposal.base_len
    for i, (token, q) in enumerate(zip(proposal.tokens, proposal.laws, strict=True)):
        p = law_at(i)
        if not accepts(p, q, token, noise.acceptance(base_len + i, base_len)):
            return Outcome(i, draw(residual(p, q), noise.target(base_len + i, base_len)))
    num_accepted = len(proposal.tokens)
    bonus = draw(law_at(num_accepted), noise.target(base_len + num_accepted, base_len))
    return Outcome(num_accepted, bonus)


def accepts(p: Law, q: SparseLaw, token: int, u: float) -> bool:
    """Whether `token`, drawn from q, is accepted by the target's law p `[V]`; a token outside p has probability 0."""
    probability = float(p[token]) if token < len(p) else 0.0
    weight = int(q.weights[q.ids == token][0])
    return u * weight < int(q.weights.sum()) * probability


def residual(p: Law, q: SparseLaw) -> Law:
    """Returns (p - q)+ `[V]`, not normalised; outside the support of q that is p itself. p where nothing is left."""
    known = q.ids < len(p)
    ids = q.ids[known]
    rest = p.copy()
    rest[ids] = np.maximum(p[ids] - q.weights[known] / q.weights.sum(), 0.0)
    return rest if rest.sum() > MIN_RESIDUAL_MASS else p


def refusal(proposal: Proposal, noise: Noise) -> str:
    """Says why a proposal is malformed, or which of its tokens was not drawn from its law with the keyed noise."""
    if len(proposal.laws) != len(proposal.tokens):
        return f"{len(proposal.tokens)} tokens came with {len(proposal.laws)} laws"
    for i, (token, law) in enumerate(zip(proposal.tokens, proposal.laws, strict=True)):
        flaw = _flaw(law)
        if flaw:
            return f"the law of drafted token {i} {flaw}"
        if draw_sparse(law, noise.draft(proposal.base_len + i, proposal.base_len)) != token:
            return f"drafted token {i} is not the one that its law and the draft key give"
    return ""


def _flaw(law: SparseLaw) -> str:
    if len(law.ids) == 0 or len(law.ids) != len(law.weights):
        return f"has {len(law.ids)} ids and {len(law.weights)} weights"
    if law.weights.min() < 1 or law.weights.max() > MAX_WEIGHT:
        return f"has a weight outside 1 .. {MAX_WEIGHT}"
    if law.ids.min() < 0 or len(set(law.ids.tolist())) != len(law.ids):
        return "has a negative or repeated id"
    return ""


class RejectionRule:
    """The rejection rule with the noise of one sequence, keyed by base_len, position and lane."""

    def __init__(self, seed: int, choice: int, vocab_size: int) -> None:
        self._noise = TargetNoise(seed, choice)

    def refusal(self, proposal: Proposal) -> str:
        """See Rule.refusal."""
        return refusal(proposal, self._noise)

    def verify(self, law_at: LawAt, proposal: Proposal) -> Outcome:
        """See Rule.verify."""
        return verify(law_at, proposal, self._noise)
