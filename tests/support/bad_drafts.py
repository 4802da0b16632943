"""Drafts in the test's own process that go wrong in one way each, and honest ones to compare them with.

A draft is a function `choose(law, noise, position, base_len)` that gives the token and the law to report for it, or
None to propose nothing. `law` is its own law of the token at `position`; `noise` has all lanes of the sequence.
"""

import numpy as np
from scipy import stats

from forerun.sampling.draw import draw_sparse
from forerun.types import Proposal, SparseLaw
from target_service.rules import rejection

UNLIKELY = 0.2  # of the whole weight
UNKNOWN = 64  # an id that the target lacks
LOG2_POINTS = 14


def honest(law, noise, position, base_len):
    """Draws from the law that it reports, with its own lane."""
    return draw_sparse(law, noise.draft(position, base_len)), law


def sees_unknown_ids(law, noise, position, base_len):
    """Honest, but the likeliest of its ids is one that the target lacks."""
    return honest(
        SparseLaw(np.where(law.ids == _ranked(law)[0], UNKNOWN, law.ids), law.weights), noise, position, base_len
    )


def drops_unknown_ids(law, noise, position, base_len):
    """Withholds a token that it drew because the target lacks it."""
    token, law = sees_unknown_ids(law, noise, position, base_len)
    return None if token == UNKNOWN else (token, law)


def cuts_unlikely_tokens(law, noise, position, base_len):
    """Withholds a token that it drew because q of it is low."""
    token, law = honest(law, noise, position, base_len)
    return None if law.weights[law.ids == token][0] < UNLIKELY * law.weights.sum() else (token, law)


def draws_with_the_acceptance_lane(law, noise, position, base_len):
    """Its token has the law that is reported, all ids alike, but depends on what decides about it."""
    ids = _ranked(law)[::-1]
    token = ids[int(noise.acceptance(position, base_len) * len(ids))]
    return _reported(token, ids, noise.draft(position, base_len))


def reports_more_than_it_draws_from(law, noise, position, base_len):
    """Draws one of the two likeliest tokens and reports the law before it was truncated to those."""
    ids, u = _ranked(law), noise.draft(position, base_len)
    return _reported(ids[int(2 * len(ids) * u) % 2], ids, u)


def emitted_law(p, law, choose):
    """The law `[V]` of the token that leaves, where the target's is p `[V]`, and how often the drafted one is it.

    The shipped rule's own pieces, integrated over both lanes by a net of points that leaves no gap (Sobol).
    """
    total, num_accepted = np.zeros(len(p)), 0
    points = stats.qmc.Sobol(2, scramble=False).random_base2(LOG2_POINTS)
    for point in points:
        chosen = choose(law, _Scripted(*point), 0, 0)
        if chosen is None:
            total += p
        elif rejection.accepts(p, chosen[1], chosen[0], point[1]):
            total[chosen[0]] += 1
            num_accepted += 1
        else:
            rest = rejection.residual(p, chosen[1])
            total += rest / rest.sum()
    return total / len(points), num_accepted / len(points)


class FirstToken:
    """Proposes the first token of a sequence by `choose`, as `tests.support.wire.DraftLine.propose` does."""

    def __init__(self, law, choose, noise):
        self._law, self._choose, self._noise = law, choose, noise

    async def propose(self, transcript, k, base_len):
        from forerun.rpc import convert

        chosen = self._choose(self._law, self._noise, len(transcript), len(transcript))
        tokens, laws = ((chosen[0],), (chosen[1],)) if chosen else ((), ())
        return convert.proposal_to_pb(Proposal(len(transcript), tokens, laws))


class _Scripted:
    """Noise that is the same everywhere."""

    def __init__(self, draft, acceptance):
        self._draft, self._acceptance = draft, acceptance

    def draft(self, position, base_len):
        return self._draft

    def acceptance(self, position, base_len):
        return self._acceptance


def _ranked(law):
    return law.ids[np.argsort(-law.weights, kind="stable")].tolist()


def _reported(token, ids, u):
    """`token`, and the law of equal weights whose ids stand in an order in which u draws it: no redraw finds a flaw."""
    order = [other for other in ids if other != token]
    order.insert(int(u * len(ids)), token)
    return token, SparseLaw(np.array(order), np.ones(len(order), dtype=np.int64))
