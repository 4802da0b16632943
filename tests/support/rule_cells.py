"""What the rejection rule emits in a small world, counted exactly instead of sampled.

The rule under test is the shipped `verify`. Its uniforms are scripted: a token is accepted for exactly the uniforms
below a threshold, which is found by trying both sides of it; and the law that it hands to `draw` is recorded (that
`draw` draws from the law it is given is shown in tests/unit/sampling/test_draw.py, by the same kind of counting).
"""

from dataclasses import dataclass
from itertools import product

import numpy as np

from forerun.types import Proposal
from target_service.rules import rejection
from tests.support.rule_world import PROMPT

RESOLUTION = 2.0**-50
HAIR = 1e-12
ALMOST_ONE = 1 - 2.0**-53


def preimages(function, num_values):
    """Returns the share `[num_values]` of uniforms in [0, 1) that a step function sends to each value.

    Bisects the jumps of `function`; every value must own at most one interval.
    """
    shares = np.zeros(num_values)
    _bisect(function, 0.0, function(0.0), ALMOST_ONE, function(ALMOST_ONE), shares)
    return shares


def _bisect(function, low, at_low, high, at_high, shares):
    middle = (low + high) / 2
    if at_low == at_high:
        shares[at_low] += high - low
    elif high - low < RESOLUTION:
        shares[at_high] += high - low
    else:
        at_middle = function(middle)
        _bisect(function, low, at_low, middle, at_middle, shares)
        _bisect(function, middle, at_middle, high, at_high, shares)


@dataclass
class Script:
    """The rule's noise: accepts everything before `position`, and decides there by `u`."""

    position: int
    u: float

    def acceptance(self, position, base_len):
        return 0.0 if position - base_len < self.position else self.u

    def target(self, position, base_len):
        return 0.5


class Cell:
    """A world, a length K and a rule: what does it emit? `lanes_shared`: acceptance reads the draft's noise."""

    def __init__(self, world, num_draft_tokens, verify=rejection.verify, lanes_shared=False):
        self.world, self.k, self.verify, self.lanes_shared = world, num_draft_tokens, verify, lanes_shared

    def run(self, tokens, position, u):
        """Runs the rule on one proposal; returns how many it accepted and the law that the last token is drawn from."""
        recorded = []

        def record(p, _):
            recorded.append(p / p.sum())
            return 0

        laws = tuple(self.world.reported(tokens[:i]) for i in range(self.k))
        shipped, rejection.draw = rejection.draw, record
        try:
            proposal = Proposal(len(PROMPT), tokens, laws)
            outcome = self.verify(lambda i: self.world.target(tokens[:i]), proposal, Script(position, u))
        finally:
            rejection.draw = shipped
        (law,) = recorded
        return outcome.num_accepted, law

    def acceptance(self, tokens, position):
        """Returns the probability that the token at `position`, once drafted and reached, is accepted."""
        threshold = self._threshold(tokens, position)
        if not self.lanes_shared:
            return threshold
        drawn = self.world.drawn(tokens[:position])
        shares = np.cumsum(drawn.weights) / drawn.weights.sum()
        index = int(np.flatnonzero(drawn.ids == tokens[position])[0])
        low, high = (shares[index - 1] if index else 0.0), shares[index]
        return (min(max(threshold, low), high) - low) / (high - low)

    def _threshold(self, tokens, position):
        def rejected(u):
            return int(self.run(tokens, position, u)[0] <= position)

        guess = self._guess(tokens, position)
        below, above = max(guess - HAIR, 0.0), min(guess + HAIR, ALMOST_ONE)
        if not rejected(below) and (guess >= 1 or rejected(above)):
            return guess
        return float(preimages(rejected, 2)[0])

    def _guess(self, tokens, position):
        law, p = self.world.reported(tokens[:position]), self.world.target(tokens[:position])
        token = tokens[position]
        weights = law.weights[law.ids == token]
        probability = p[token] if token < len(p) else 0.0
        return float(min(1.0, probability * law.weights.sum() / weights[0])) if len(weights) else 0.0

    def filled(self, tokens):
        """Lengthens a prefix to K tokens by likeliest drafts."""
        while len(tokens) < self.k:
            law = self.world.drawn(tokens)
            tokens += (int(law.ids[np.argmax(law.weights)]),)
        return tokens

    def emitted(self, prefix):
        """Returns the law of the token after `prefix`, all of that accepted, and which tokens can be accepted there."""
        position, total = len(prefix), np.zeros(self.world.vocab_size)
        if position == self.k:
            return self.run(prefix, self.k, 0.0)[1], ()
        drawn, onward = self.world.drawn(prefix), []
        for token, weight in zip(drawn.ids.tolist(), drawn.weights.tolist(), strict=True):
            tokens = self.filled((*prefix, token))
            accepted, share = self.acceptance(tokens, position), weight / drawn.weights.sum()
            if accepted > 0:
                total[token] += share * accepted
                onward.append(token)
            if accepted < 1:
                total += share * (1 - accepted) * self.run(tokens, position, ALMOST_ONE)[1]
        return total, tuple(onward)

    def worst_deviation(self):
        """Returns the largest total variation, over all reachable prefixes, between emitted and target's law.

        By the chain rule 0 everywhere is the same as: the run that is emitted has the target's autoregressive law.
        Prefixes after which the laws are the same ones are visited once.
        """
        worst, level = 0.0, {(): ()}
        for _ in range(self.k + 1):
            following = {}
            for prefix in level.values():
                law, onward = self.emitted(prefix)
                worst = max(worst, np.abs(law - self.world.target(prefix)).sum() / 2)
                following.update({self.world.key((*prefix, token)): (*prefix, token) for token in onward})
            level = following
        return worst

    def run_law(self):
        """Returns {emitted run: probability}, over all proposals and all places of the first rejection."""
        law = {}
        for path in self._paths():
            reach = self._path_probability(path)
            for cut in range(self.k + 1):
                accepted = self.acceptance(path, cut) if cut < self.k else 0.0
                if reach * (1 - accepted) > 0:
                    last = self.run(path, cut, ALMOST_ONE)[1]
                    for token in np.flatnonzero(last):
                        run = (*path[:cut], int(token))
                        law[run] = law.get(run, 0.0) + reach * (1 - accepted) * last[token]
                reach *= accepted
        return law

    def _paths(self):
        width = self.world.vocab_size + self.world.unknown_ids
        return [path for path in product(range(width), repeat=self.k) if self._path_probability(path) > 0]

    def _path_probability(self, path):
        probability = 1.0
        for i, token in enumerate(path):
            law = self.world.drawn(path[:i])
            probability *= law.weights[law.ids == token].sum() / law.weights.sum()
        return float(probability)
