"""Tokens drafted after a transcript, on one sequence of the engine."""

import math
from collections import abc
from dataclasses import dataclass, field

import numpy as np

from draft_service.drawing import Drawer
from forerun.engine.sequence import Sequence
from forerun.types import Proposal, SparseLaw


@dataclass(slots=True, eq=False)
class Drafted:
    """The sequence's tokens from base_len on were drafted, num_due more are to be.

    laws: of each drafted token, where the rule needs them. qs: their own probability (drawing.Drawn.q). rows: the
    logits that each was drawn from, where branches will be begun from them.
    """

    sequence: Sequence
    base_len: int
    num_due: int = 0
    laws: list[SparseLaw] = field(default_factory=list)
    qs: list[float] = field(default_factory=list)
    rows: list[np.ndarray] = field(default_factory=list)

    @property
    def tokens(self) -> list[int]:
        """What was drafted so far."""
        return self.sequence.tokens[self.base_len :]

    def draw(self, drawer: Drawer, logits: np.ndarray, wants_q: bool) -> None:
        """Drafts the next token from its logits."""
        drawn = drawer.draw(logits, self.sequence.tokens, self.base_len, wants_q)
        self.sequence.tokens.append(drawn.token)
        self.qs.append(drawn.q)
        if drawn.law is not None:
            self.laws.append(drawn.law)
        self.num_due -= 1

    def shorten(self, k: int) -> None:
        """Forgets all but the first k tokens, which the sequence holds alone by now."""
        del self.laws[k:], self.qs[k:], self.rows[k:]

    def outcomes(self, base_len: int, ids: abc.Sequence[int]) -> list[tuple[float, bool]]:
        """q of each token that the transcript's first base_len tokens and `ids` decide about, and whether it stands
        there: up to the first that does not. Tokens whose q nobody wanted to know are left out.
        """
        found = list[tuple[float, bool]]()
        for place, (token, q) in enumerate(zip(self.tokens, self.qs, strict=False), self.base_len - base_len):
            if place >= len(ids):
                break
            stands = place < 0 or ids[place] == token
            if not math.isnan(q):
                found.append((q, stands))
            if not stands:
                break
        return found

    def keep(self, logits: np.ndarray) -> None:
        """Keeps the logits `[head size] float32` that the last token was drawn from, and nothing else of their step."""
        self.rows.append(logits.copy())

    def proposal(self, draft_s: float) -> Proposal:
        """What was drafted so far, for the wire."""
        return Proposal(self.base_len, tuple(self.tokens), tuple(self.laws), draft_s)
