"""A proposal that nobody waited for, scored against what the target emitted in its place."""

from collections.abc import Sequence
from itertools import accumulate

from forerun.rpc.messages import Proposal


class Shadow:
    """A proposal of at most k tokens under way to be overtaken; `base_len` is where its tokens would have stood."""

    def __init__(self, proposal: Proposal, k: int) -> None:
        self._proposal, self._k = proposal, k
        self.base_len: int = proposal.base_len
        self.length = k, len(proposal.tokens)

    def is_covered(self, transcript_len: int) -> bool:
        """Whether the transcript reaches past the proposal's last token."""
        return transcript_len >= self.base_len + len(self._proposal.tokens)

    def credits(self, emitted: Sequence[int]) -> list[float]:
        """For each drafted token whose prefix was emitted: how likely the like of it is to be accepted. What was asked
        for and not proposed is not.

        Under match that is 1 or 0. Under rejection the emitted token y ~ p was not compared with the drafted one;
        q(y) relative to q's largest is a kind estimate, and true rounds correct it.
        """
        starts = [0, *accumulate(self._proposal.support_lens)]
        credits: list[float] = []
        for index, token in enumerate(self._proposal.tokens):
            law = slice(starts[index], starts[index + 1]) if self._proposal.support_lens else None
            credits.append(self._credit(token, emitted[index], law))
            if token != emitted[index]:
                return credits
        return [*credits, 0.0] if len(credits) < self._k else credits

    def _credit(self, token: int, emitted: int, law: slice | None) -> float:
        if law is None:
            return float(token == emitted)
        weights = dict(zip(self._proposal.support_ids[law], self._proposal.weights[law], strict=True))
        return weights.get(emitted, 0) / max(weights.values())
