"""Verification rules: what a target emits for a proposal, as pure functions of (laws, proposal, noise).

Adding one is a file here and a line in RULES; docs/losslessness.md proves each.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from forerun.types import Proposal

LawAt = Callable[[int], npt.NDArray[np.float64]]

RULES = {
    "match": "target_service.rules.match:MatchRule",
    "rejection": "target_service.rules.rejection:RejectionRule",
    "block": "target_service.rules.block:BlockRule",
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """The first num_accepted proposed tokens are emitted, and then `token`: recovered, or the bonus after all."""

    num_accepted: int
    token: int


class Rule(Protocol):
    """A rule bound to one sequence's noise: built as Rule(seed, choice, vocab_size)."""

    def __init__(self, seed: int, choice: int, vocab_size: int) -> None: ...

    def refusal(self, proposal: Proposal) -> str:
        """Says why the proposal cannot be verified by this rule; empty where it can. Looks at no law of the target."""
        ...

    def verify(self, law_at: LawAt, proposal: Proposal) -> Outcome:
        """Verifies a proposal that was not refused.

        law_at(i) is the target's law `[V]` of the token after base_len + i tokens, given the first i proposed ones;
        it is asked for in order, and never after a token that the target lacks.
        """
        ...
