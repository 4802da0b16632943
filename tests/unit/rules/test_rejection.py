"""The rejection rule's pieces: acceptance, residual, and what it refuses."""

import numpy as np
import pytest

from forerun.sampling.draw import draw_sparse
from forerun.sampling.noise import TargetNoise
from forerun.types import Proposal, SparseLaw
from target_service.rules import rejection

NOISE = TargetNoise(3, 0)
P = np.array([0.5, 0.3, 0.2, 0.0])


def law(ids, weights):
    return SparseLaw(np.array(ids, dtype=np.int64), np.array(weights, dtype=np.int64))


def drawn(q, base_len=2):
    return Proposal(base_len, (draw_sparse(q, NOISE.draft(base_len, base_len)),), (q,))


def test_a_token_is_accepted_for_exactly_the_share_p_over_q():
    q = law([0, 1], [1, 3])
    assert rejection.accepts(P, q, 1, 0.3 / 0.75 - 1e-12)
    assert not rejection.accepts(P, q, 1, 0.3 / 0.75 + 1e-12)
    assert rejection.accepts(P, q, 0, 1 - 2.0**-53)


@pytest.mark.parametrize("token", [3, 4, 10**9])
def test_a_token_that_is_impossible_or_unknown_to_the_target_is_never_accepted(token):
    assert not rejection.accepts(P, law([token], [1]), token, 0.0)


def test_the_residual_is_the_positive_part_of_p_minus_q_over_the_whole_vocabulary():
    """Case 29."""
    assert rejection.residual(P, law([1, 2, 9], [2, 1, 1])) == pytest.approx([0.5, 0.0, 0.0, 0.0])
    assert rejection.residual(P, law([1, 7], [1, 9])) == pytest.approx([0.5, 0.2, 0.2, 0.0])


def test_a_residual_without_mass_is_p():
    assert rejection.residual(P, law([0, 1, 2], [5, 3, 2])).tolist() == P.tolist()


def test_laws_are_not_asked_for_beyond_the_first_rejection():
    asked = []

    def law_at(i):
        asked.append(i)
        return P

    q = law([3], [1])
    outcome = rejection.verify(law_at, Proposal(2, (3, 3, 3), (q, q, q)), NOISE)
    assert outcome.num_accepted == 0
    assert asked == [0]


def test_an_honest_proposal_is_not_refused():
    assert rejection.refusal(drawn(law([5, 9, 2], [3, 4, 1])), NOISE) == ""
    assert rejection.refusal(Proposal(7), NOISE) == ""


def test_a_token_that_was_not_drawn_from_its_law_with_the_draft_key_is_refused():
    q = law([5, 9], [1, 1])
    token = drawn(q).tokens[0]
    other = 14 - token
    assert "draft key" in rejection.refusal(Proposal(2, (other,), (q,)), NOISE)
    assert "draft key" in rejection.refusal(Proposal(2, (77,), (q,)), NOISE)


@pytest.mark.parametrize(
    "bad",
    [
        law([], []),
        law([1, 2], [1]),
        law([1], [0]),
        law([1, 2], [5, -1]),
        law([1], [2**33]),
        law([-1], [1]),
        law([4, 4], [1, 1]),
    ],
)
def test_a_malformed_law_is_refused(bad):
    assert "law of drafted token 0" in rejection.refusal(Proposal(2, (1,), (bad,)), NOISE)


def test_as_many_laws_as_tokens_are_needed():
    assert rejection.refusal(Proposal(2, (1, 2), (law([1], [1]),)), NOISE) == "2 tokens came with 1 laws"


class Recorder:
    """Noise that accepts what has a positive ratio up to a position, and notes what it was asked for."""

    def __init__(self, num_accepted):
        self.num_accepted, self.asked = num_accepted, []

    def acceptance(self, position, base_len):
        self.asked.append(("acceptance", position, base_len))
        return 0.0 if position - base_len < self.num_accepted else 1 - 2.0**-53

    def target(self, position, base_len):
        self.asked.append(("target", position, base_len))
        return 0.5


@pytest.mark.parametrize("num_accepted", [0, 1, 2, 3])
def test_every_decision_reads_its_own_lane_at_its_own_place_once(num_accepted):
    """Case 30."""
    q = law([1], [1])
    noise = Recorder(num_accepted)
    outcome = rejection.verify(lambda i: P, Proposal(7, (1, 1, 1), (q, q, q)), noise)
    acceptances = [("acceptance", 7 + i, 7) for i in range(min(num_accepted + 1, 3))]
    assert outcome.num_accepted == num_accepted
    assert noise.asked == [*acceptances, ("target", 7 + num_accepted, 7)]
