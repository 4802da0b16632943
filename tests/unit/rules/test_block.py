"""The block rule's pieces: how prefixes are weighed, what is read and in which order."""

import numpy as np
import pytest

from forerun.types import Proposal, SparseLaw
from target_service.rules import block, rejection

ALMOST_ONE = 1 - 2.0**-53
Q = SparseLaw(np.array([0, 1]), np.array([2, 1]))
P = np.array([1, 2]) / 3


class Scripted:
    """Noise whose acceptance uniforms are given from position 5 on, and notes of what was read."""

    def __init__(self, *uniforms):
        self.uniforms, self.asked = uniforms, []

    def acceptance(self, position, base_len):
        self.asked.append(("acceptance", position, base_len))
        return self.uniforms[position - 5]

    def target(self, position, base_len):
        self.asked.append(("target", position, base_len))
        return 0.5


def proposal(*tokens, q=Q):
    return Proposal(5, tokens, (q,) * len(tokens))


def law_at(i):
    return P


def test_an_unlikely_token_is_made_up_for_by_a_likely_one_after_it():
    """p/q is 1/2 for token 0 and 2 for token 1."""
    assert block.weigh(law_at, proposal(0, 1, 0, 0)).reach == pytest.approx([1, 1 / 2, 1, 1 / 2, 1 / 4])
    assert block.verify(law_at, proposal(0, 1), Scripted(ALMOST_ONE, ALMOST_ONE)).num_accepted == 2
    assert rejection.verify(law_at, proposal(0, 1), Scripted(ALMOST_ONE, ALMOST_ONE)).num_accepted == 0


def test_more_tokens_survive_with_the_overlap_of_what_is_left_of_p_and_q():
    """min(reach p, q): (1/3, 1/3) for reach 1, (1/6, 1/3) for 1/2; nothing follows the last token."""
    assert block.weigh(law_at, proposal(0, 1)).beyond == pytest.approx([2 / 3, 1 / 2, 0])


def test_a_prefix_passes_for_exactly_the_share_that_its_reach_still_lacks():
    weighed = block.weigh(lambda i: np.array([0.4, 0.6]), proposal(0, 0))
    chance = (0.6 - 0.24 - 1 / 3) / (1 - 0.24 - 1 / 3)
    for hair, num_accepted in ((-1e-12, 1), (1e-12, 0)):
        assert block.passes(weighed, 1, chance + hair) == bool(num_accepted)
        noise = Scripted(chance + hair, ALMOST_ONE)
        assert block.verify(lambda i: np.array([0.4, 0.6]), proposal(0, 0), noise).num_accepted == num_accepted


def test_the_recovered_token_is_drawn_from_what_reach_leaves_of_p(monkeypatch):
    drawn = []
    monkeypatch.setattr(block, "draw", lambda law, u: drawn.append(law.tolist()) or 0)
    p = np.array([0.4, 0.6])
    block.verify(lambda i: p, proposal(0, 0), Scripted(0.0, ALMOST_ONE))
    block.verify(lambda i: p, proposal(0, 0), Scripted(ALMOST_ONE, ALMOST_ONE))
    block.verify(lambda i: p, proposal(0, 0), Scripted(ALMOST_ONE, 0.0))
    assert drawn[0] == pytest.approx([0, 0.6 * 0.6 - 1 / 3])
    assert drawn[1] == pytest.approx([0, 0.6 - 1 / 3])
    assert drawn[2] == pytest.approx([0.4, 0.6])


def test_every_decision_reads_its_own_lane_at_its_own_place_once_the_longest_prefix_first():
    """Case 30. Nothing is read about prefixes shorter than the accepted one."""
    for uniforms, places in (
        ((ALMOST_ONE,) * 3, (7, 6, 5)),
        ((ALMOST_ONE, ALMOST_ONE, 0.0), (7,)),
    ):
        noise = Scripted(*uniforms)
        num_accepted = block.verify(law_at, proposal(0, 0, 0), noise).num_accepted
        assert noise.asked == [*(("acceptance", place, 5) for place in places), ("target", 5 + num_accepted, 5)]


@pytest.mark.parametrize("u", [0.0, 0.3, 0.49999, 0.50001, 0.9, ALMOST_ONE])
def test_one_token_is_verified_as_by_rejection(u):
    for token in (0, 1):
        ours, theirs = (rule.verify(law_at, proposal(token), Scripted(u)) for rule in (block, rejection))
        assert ours == theirs


@pytest.mark.parametrize("num_tokens", [0, 1, 5])
def test_a_draft_whose_law_is_the_targets_is_accepted_whole(num_tokens):
    tokens = (0, 1, 0, 1, 1)[:num_tokens]
    p = Q.weights / Q.weights.sum()
    outcome = block.verify(lambda i: p, proposal(*tokens), Scripted(*[ALMOST_ONE] * num_tokens))
    assert outcome.num_accepted == num_tokens


@pytest.mark.parametrize("token", [2, 9])
def test_no_law_is_asked_for_after_a_token_that_is_impossible_or_unknown_to_the_target(token):
    """There is no row after an unknown one. Nothing from it on is accepted, with any noise."""
    asked = []

    def law_at(i):
        asked.append(i)
        return np.array([0.5, 0.5, 0.0])

    q = SparseLaw(np.array([1, token]), np.array([1, 1]))
    outcome = block.verify(law_at, proposal(1, token, 1, 1, q=q), Scripted(0.0, 0.0, 0.0, 0.0))
    assert (outcome.num_accepted, asked) == (1, [0, 1])


def test_a_prefix_too_unlikely_to_matter_ends_the_proposal_and_is_tested_as_its_last():
    q = SparseLaw(np.array([0, 1]), np.array([99, 1]))
    p = np.array([0.005, 0.995])
    asked = []

    def law_at(i):
        asked.append(i)
        return p

    weighed = block.weigh(law_at, proposal(1, 0, 1, q=q))
    assert weighed.reach == pytest.approx([1, 1, 0.005 / 0.99])
    assert weighed.beyond[-1] == 0
    assert asked == [0, 1]
    assert block.verify(law_at, proposal(1, 0, 1, q=q), Scripted(0.0, 0.0, 0.0)).num_accepted == 2


def test_it_refuses_what_rejection_refuses():
    rule = block.BlockRule(3, 0, 2)
    assert rule.refusal(Proposal(7)) == ""
    assert rule.refusal(Proposal(2, (1, 2), (Q,))) == "2 tokens came with 1 laws"
    assert "draft key" in rule.refusal(Proposal(2, (77,), (Q,)))
