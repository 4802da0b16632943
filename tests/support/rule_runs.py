"""Whole generations through the shipped Verifier with its keyed noise: drafts of any character, and a chi-square."""

import numpy as np

from forerun.sampling.draw import draw_sparse, race
from forerun.sampling.noise import DraftNoise, MatchNoise, derive_key
from forerun.types import Proposal, SparseLaw, Verification
from target_service.verifier import Verifier
from tests.support.rule_world import PROMPT

Z_ONE_IN_A_MILLION = 4.7534


def generate(world, seed, num_tokens, propose, num_draft_tokens, choice=0, verifier=None):
    """Returns the first num_tokens tokens emitted after the prompt, and how many drafted ones were accepted.

    propose(prefix, k, seed) gives the Proposal that follows PROMPT + prefix.
    """
    verifier = verifier or Verifier(world.params, len(PROMPT), seed, choice, world.vocab_size)
    emitted, num_accepted = (), 0
    while len(emitted) < num_tokens:
        proposal = propose(emitted, num_draft_tokens, seed)
        context = PROMPT + emitted
        drafted = verifier.usable(proposal)
        rows = np.stack(
            [world.rows["target"][(context + drafted)[len(context) - 1 + i]] for i in range(len(drafted) + 1)]
        )
        verdict = verifier.verify(context, proposal, rows)
        assert verdict.refused == ""
        emitted += (*proposal.tokens[: verdict.num_accepted], verdict.token)
        num_accepted += verdict.num_accepted
    return emitted[:num_tokens], num_accepted


def alone(prefix, k, seed):
    """No draft at all."""
    return Proposal(len(PROMPT) + len(prefix))


def honest(world):
    """A draft that draws from the law it reports, or races its law under match."""

    def propose(prefix, k, seed):
        base_len, tokens, laws = len(PROMPT) + len(prefix), (), ()
        if world.params.verification is Verification.MATCH:
            noise = MatchNoise(derive_key(seed, 0, "match"))
            for i in range(k):
                p = world.draft(prefix + tokens)
                tokens += (race(p, noise.raw(base_len + i, len(p))),)
            return Proposal(base_len, tokens)
        noise = DraftNoise(derive_key(seed, 0, "draft"))
        for i in range(k):
            laws += (world.drawn(prefix + tokens),)
            tokens += (draw_sparse(laws[-1], noise.draft(base_len + i, base_len)),)
        return Proposal(base_len, tokens, laws)

    return propose


def hostile(token, other):
    """A draft that knows its noise: it orders the ids of a law of two equal weights so that `token` is always drawn."""

    def propose(prefix, k, seed):
        base_len = len(PROMPT) + len(prefix)
        noise = DraftNoise(derive_key(seed, 0, "draft"))
        first = [noise.draft(base_len + i, base_len) < 0.5 for i in range(k)]
        laws = tuple(SparseLaw(np.array([token, other] if f else [other, token]), np.array([1, 1])) for f in first)
        return Proposal(base_len, (token,) * k, laws)

    return propose


def chi_square(world, runs):
    """Returns how far the counts of `runs` are above the chi-square value that chance exceeds once in a million.

    Negative is fine. Outcomes expected fewer than 5 times are pooled; the quantile is Wilson and Hilferty's.
    """
    counts = {}
    for run in runs:
        counts[run] = counts.get(run, 0) + 1
    laws = list(_autoregressive(world, len(runs[0])))
    expected = np.array([probability * len(runs) for _, probability in laws])
    observed = np.array([counts.pop(run, 0) for run, _ in laws], dtype=float)
    assert not counts, f"impossible runs {sorted(counts)}"
    large = expected >= 5
    expected = np.append(expected[large], expected[~large].sum() + 1e-9)
    observed = np.append(observed[large], observed[~large].sum())
    statistic = ((observed - expected) ** 2 / np.maximum(expected, 1.0)).sum()
    return statistic - _critical(len(expected) - 1)


def _critical(freedom):
    spread = 2 / (9 * freedom)
    return freedom * (1 - spread + Z_ONE_IN_A_MILLION * spread**0.5) ** 3


def _autoregressive(world, length, prefix=(), probability=1.0):
    if len(prefix) == length:
        yield prefix, probability
        return
    p = world.target(prefix)
    for token in np.flatnonzero(p).tolist():
        yield from _autoregressive(world, length, (*prefix, token), probability * p[token])
