"""A small target and a small draft whose laws are known at every prefix."""

from dataclasses import dataclass, field

import numpy as np

from forerun.sampling.draw import truncate
from forerun.sampling.processors import Processors
from forerun.types import SamplingParams

PROMPT = (0,)
PENALTIES = {"presence_penalty": 0.6, "frequency_penalty": 0.4, "repetition_penalty": 1.3}
FILTERS = {
    "plain": {},
    "top_k": {"top_k": 3},
    "top_p": {"top_p": 0.8},
    "penalties": PENALTIES,
    "all": {**PENALTIES, "top_k": 4, "top_p": 0.9, "logit_bias": ((1, -100.0), (2, 0.7))},
}


@dataclass
class World:
    """A target and a draft whose logits are random rows, one per last token; penalties see the whole context.

    `unknown_ids` further ids exist in the draft's vocabulary alone. `reported_support` differs from `support` only
    in a draft that does not report the law it draws from.
    """

    params: SamplingParams
    vocab_size: int
    support: int
    unknown_ids: int = 0
    reported_support: int | None = None
    seed: int = 1
    memo: dict = field(default_factory=dict)

    def __post_init__(self):
        rng = np.random.default_rng(self.seed)
        width = self.vocab_size + self.unknown_ids
        target = rng.normal(scale=1.5, size=(width, self.vocab_size))
        draft = rng.normal(scale=0.8, size=(width, width))
        draft[:, : self.vocab_size] += target
        self.rows = {"target": target.astype(np.float32), "draft": draft.astype(np.float32)}
        self.processors = Processors(self.params, len(PROMPT))

    def key(self, prefix):
        """What the laws after `prefix` depend on."""
        return (tuple(sorted(prefix)), prefix[-1:]) if self.processors.reads_context else prefix[-1:]

    def target(self, prefix):
        """The target's law `[V]` after the drafted `prefix`."""
        return self._law("target", prefix)

    def draft(self, prefix):
        """The draft's law after `prefix` before it is truncated."""
        return self._law("draft", prefix)

    def drawn(self, prefix):
        """The law that the draft draws its next token from."""
        return self._sparse(prefix, self.support)

    def reported(self, prefix):
        """The law that the draft puts on the wire."""
        return self._sparse(prefix, self.reported_support or self.support)

    def _sparse(self, prefix, support):
        key = ("sparse", support, self.key(prefix))
        if key not in self.memo:
            self.memo[key] = truncate(self.draft(prefix), support)
        return self.memo[key]

    def _law(self, who, prefix):
        key = (who, self.key(prefix))
        if key not in self.memo:
            context = PROMPT + prefix
            self.memo[key] = self.processors.law(self.rows[who][context[-1]], context)
        return self.memo[key]
