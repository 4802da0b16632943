"""What a rule that judges whole proposals emits in a small world, counted exactly: over every proposal, and for each
over every way through the shipped rule (tests/support/rule_branches.py)."""

from collections import defaultdict
from contextlib import ExitStack
from functools import partial
from unittest import mock

import numpy as np

from forerun.types import Proposal
from target_service.rules import block, rejection
from tests.support.rule_branches import ways
from tests.support.rule_world import PROMPT


class Blocks:
    """A world, a length K and a rule: what does it emit?

    stops(prefix): the draft proposes nothing after these tokens. lanes_shared: acceptance reads the draft's noise.
    """

    def __init__(self, world, num_draft_tokens, verify=block.verify, stops=None, lanes_shared=False):
        self.world, self.k, self.verify = world, num_draft_tokens, verify
        self.stops, self.lanes_shared = stops or (lambda prefix: False), lanes_shared
        self.mass = defaultdict(float)
        self.next = defaultdict(lambda: np.zeros(world.vocab_size))
        for share, tokens in self._proposals((), 1.0):
            for probability, (num_accepted, law) in ways(partial(self._run, tokens), self._spans(tokens)):
                self._count(share * probability, tokens[:num_accepted], law)

    def worst_deviation(self):
        """Returns the largest of K + 1 distances: between the law of the n + 1st token given n accepted ones, and
        the target's, in total variation and in the mean over those n tokens.

        By the chain rule 0 everywhere is the same as: the run that is emitted has the target's autoregressive law.
        """
        distances = np.zeros(self.k + 1)
        for prefix, mass in self.mass.items():
            distances[len(prefix)] += np.abs(self.next[prefix] - mass * self.world.target(prefix)).sum() / 2
        return distances.max()

    def survival(self):
        """Returns the probability `[K]` that at least 1, 2, … tokens are accepted."""
        totals = np.zeros(self.k + 1)
        for prefix, mass in self.mass.items():
            totals[len(prefix)] += mass
        return totals[1:]

    def _proposals(self, tokens, share):
        if len(tokens) == self.k or self.stops(tokens):
            yield share, tokens
            return
        law = self.world.drawn(tokens)
        for token, weight in zip(law.ids.tolist(), law.weights.tolist(), strict=True):
            yield from self._proposals((*tokens, token), share * weight / law.weights.sum())

    def _run(self, tokens, way):
        """How many tokens the rule accepts on this way, and the law that it draws the last one from."""
        recorded = []

        def record(p, _):
            recorded.append(p / p.sum())
            return 0

        laws = tuple(self.world.reported(tokens[:i]) for i in range(len(tokens)))
        with ExitStack() as stack:
            for rule in (block, rejection):
                stack.enter_context(mock.patch.object(rule, "draw", record))
            proposal = Proposal(len(PROMPT), tokens, laws)
            outcome = self.verify(lambda i: self.world.target(tokens[:i]), proposal, way)
        (law,) = recorded
        return outcome.num_accepted, law

    def _spans(self, tokens):
        """Where the draft's own uniforms lie that drew these tokens, if acceptance reads them."""
        spans = {}
        for i in range(len(tokens) if self.lanes_shared else 0):
            law = self.world.drawn(tokens[:i])
            ends = np.cumsum(law.weights) / law.weights.sum()
            index = int(np.flatnonzero(law.ids == tokens[i])[0])
            spans[len(PROMPT) + i, len(PROMPT)] = (ends[index - 1] if index else 0.0, ends[index])
        return spans

    def _count(self, probability, accepted, law):
        for n in range(len(accepted) + 1):
            self.mass[accepted[:n]] += probability
        for n, token in enumerate(accepted):
            self.next[accepted[:n]][token] += probability
        self.next[accepted] += probability * law
