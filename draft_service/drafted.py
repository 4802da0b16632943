"""Tokens drafted after a transcript, on one sequence of the engine."""

from dataclasses import dataclass, field

import numpy as np

from draft_service.drawing import Drawer
from forerun.engine.sequence import Sequence
from forerun.types import Proposal, SparseLaw


@dataclass(slots=True, eq=False)
class Drafted:
    """The sequence's tokens from base_len on were drafted, num_due more are to be.

    laws: of each drafted token, where the rule needs them. rows: the logits that each was drawn from, where branches
    will be begun from them.
    """

    sequence: Sequence
    base_len: int
    num_due: int = 0
    laws: list[SparseLaw] = field(default_factory=list)
    rows: list[np.ndarray] = field(default_factory=list)

    @property
    def tokens(self) -> list[int]:
        """What was drafted so far."""
        return self.sequence.tokens[self.base_len :]

    def draw(self, drawer: Drawer, logits: np.ndarray) -> None:
        """Drafts the next token from its logits."""
        token, law = drawer.draw(logits, self.sequence.tokens, self.base_len)
        self.sequence.tokens.append(token)
        if law is not None:
            self.laws.append(law)
        self.num_due -= 1

    def keep(self, logits: np.ndarray) -> None:
        """Keeps the logits `[head size] float32` that the last token was drawn from, and nothing else of their step."""
        self.rows.append(logits.copy())

    def proposal(self, draft_s: float) -> Proposal:
        """What was drafted so far, for the wire."""
        return Proposal(self.base_len, tuple(self.tokens), tuple(self.laws), draft_s)
