"""The block rule by exact enumeration: its law is the target's, and near misses are seen to miss it.

Nothing here is sampled, so there is no false alarm: probabilities agree to 1e-9 or the rule is wrong.
Cases 4, 5, 6, 17, 29, 30.
"""

import numpy as np
import pytest

from forerun.types import Proposal, SamplingParams
from target_service.rules import Outcome, block, rejection
from tests.support.rule_blocks import Blocks
from tests.support.rule_world import FILTERS, World

EXACT = 1e-9
VISIBLE = 0.004  # a negative control must miss the target's law by at least this total variation

TEMPERATURES = (0.0, 0.7, 1.0)
SUPPORTS = {"full": 8, "truncated": 2, "one_hot": 1}
VOCAB_SIZES = {1: 6, 2: 6, 3: 6, 4: 4, 5: 3, 6: 3, 7: 2, 8: 2}  # of full laws, so that proposals stay countable


def blocks(temperature, filters, support, num_draft_tokens, *rule, vocab_size=None, how=(), **world):
    vocab_size = vocab_size or (VOCAB_SIZES[num_draft_tokens] if support == "full" else 6)
    params = SamplingParams(temperature=temperature, **FILTERS[filters])
    return Blocks(World(params, vocab_size, SUPPORTS[support], **world), num_draft_tokens, *rule, **dict(how))


@pytest.mark.parametrize("num_draft_tokens", range(1, 9))
@pytest.mark.parametrize("support", SUPPORTS)
@pytest.mark.parametrize("filters", FILTERS)
@pytest.mark.parametrize("temperature", TEMPERATURES)
def test_what_is_emitted_has_the_targets_law(temperature, filters, support, num_draft_tokens):
    assert blocks(temperature, filters, support, num_draft_tokens).worst_deviation() < EXACT


@pytest.mark.full
@pytest.mark.parametrize(("num_draft_tokens", "vocab_size"), [(4, 6), (5, 4), (6, 4), (7, 3), (8, 3)])
@pytest.mark.parametrize("filters", FILTERS)
@pytest.mark.parametrize("temperature", [0.7, 1.0])
def test_what_is_emitted_has_the_targets_law_with_more_ids(temperature, filters, num_draft_tokens, vocab_size):
    here = blocks(temperature, filters, "full", num_draft_tokens, vocab_size=vocab_size)
    assert here.worst_deviation() < EXACT


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("num_draft_tokens", [2, 3])
def test_no_prefix_is_too_unlikely_to_be_weighed(monkeypatch, num_draft_tokens, seed):
    """The cut at NEGLIGIBLE is for speed alone: without it, and with one that bites, the law is the same."""
    world = World(SamplingParams(temperature=0.7), 6, 8, seed=seed)
    for cut in (0.0, 0.3):
        monkeypatch.setattr(block, "NEGLIGIBLE", cut)
        assert Blocks(world, num_draft_tokens).worst_deviation() < EXACT


@pytest.mark.parametrize("num_draft_tokens", [1, 2, 4])
@pytest.mark.parametrize("temperature", [0.7, 1.0])
def test_ids_that_the_target_lacks_are_rejected_without_a_bias(temperature, num_draft_tokens):
    here = blocks(temperature, "plain", "full", num_draft_tokens, vocab_size=4, unknown_ids=2)
    assert here.worst_deviation() < EXACT


@pytest.mark.parametrize("num_draft_tokens", [2, 4])
def test_a_draft_may_stop_where_what_it_drafted_so_far_says_so(num_draft_tokens):
    here = blocks(1.0, "penalties", "full", num_draft_tokens, how={"stops": lambda prefix: prefix[-1:] == (2,)})
    assert here.worst_deviation() < EXACT


@pytest.mark.parametrize("support", SUPPORTS)
@pytest.mark.parametrize("filters", FILTERS)
def test_every_prefix_survives_at_least_as_often_as_under_rejection(monkeypatch, filters, support):
    """And how often does not depend on how many tokens were drafted after it."""
    fewer = blocks(1.0, filters, support, 3, vocab_size=4).survival()
    by_rejection = blocks(1.0, filters, support, 4, rejection.verify, vocab_size=4).survival()
    shipped = blocks(1.0, filters, support, 4, vocab_size=4).survival()
    monkeypatch.setattr(block, "NEGLIGIBLE", 0.0)
    uncut = blocks(1.0, filters, support, 4, vocab_size=4).survival()
    assert (uncut > by_rejection - EXACT).all()
    assert (np.abs(shipped - uncut) < 2.0**-6).all()
    assert np.abs(shipped[:3] - fewer).max() < EXACT


def test_it_accepts_what_the_paper_says():
    """Section 1 of arXiv 2403.10444: p = (1/3, 2/3), q = (2/3, 1/3), K = 2: 11/9 tokens instead of 10/9."""
    world = World(SamplingParams(), 2, 2)
    world.target = lambda prefix: np.array([1, 2]) / 3
    world.drawn = world.reported = lambda prefix: rejection.SparseLaw(np.array([0, 1]), np.array([2, 1]))
    assert Blocks(world, 2).survival().sum() == pytest.approx(11 / 9)
    assert Blocks(world, 2, rejection.verify).survival().sum() == pytest.approx(10 / 9)


def _mutated(**pieces):
    """The shipped rule with some of its pieces replaced."""

    def verify(law_at, proposal, noise):
        with pytest.MonkeyPatch.context() as patch:
            for name, piece in pieces.items():
                patch.setattr(block, name, piece)
            return block.verify(law_at, proposal, noise)

    return verify


def _residual_of_rejection(rest, q):
    return rejection.residual(rest / rest.sum(), q)


def _weighing_without_a_bound(law_at, proposal):
    reach, beyond, laws = [1.0], [], []
    for i, (token, q) in enumerate(zip(proposal.tokens, proposal.laws, strict=True)):
        laws.append(law_at(i))
        beyond.append(block.overlap(min(reach[i], 1.0), laws[i], q))
        reach.append(reach[i] * block.ratio(laws[i], q, token))
    return block.Weighed(reach, [*beyond, 0.0], laws)


def _testing_the_last_position_alone(law_at, proposal, noise):
    weighed = block.weigh(law_at, proposal)
    last = len(weighed.laws)
    if block.passes(weighed, last, noise.acceptance(proposal.base_len + last - 1, proposal.base_len)):
        return Outcome(last, block.draw(law_at(last), 0.5))
    return Outcome(0, block.draw(rejection.residual(weighed.laws[0], proposal.laws[0]), 0.5))


def _accepting_token_by_token(law_at, proposal, noise):
    weighed = block.weigh(law_at, proposal)
    for i, (p, q) in enumerate(zip(weighed.laws, proposal.laws, strict=False)):
        u = noise.acceptance(proposal.base_len + i, proposal.base_len)
        if not rejection.accepts(p, q, proposal.tokens[i], u):
            return Outcome(i, block.draw(rejection.residual(weighed.reach[i] * p, q), 0.5))
    return Outcome(len(weighed.laws), block.draw(law_at(len(weighed.laws)), 0.5))


CONTROLS = {
    "the residual of rejection": _mutated(residual=_residual_of_rejection),
    "the last position alone": _testing_the_last_position_alone,
    "token by token": _accepting_token_by_token,
    "reach without its bound": _mutated(weigh=_weighing_without_a_bound),
    "tests that forget that longer prefixes failed": _mutated(passes=lambda weighed, i, u: u * 1 < weighed.reach[i]),
    "the next token's overlap left out": _mutated(overlap=lambda scale, p, q: 0.0),
}


@pytest.mark.parametrize("num_draft_tokens", [2, 3])
@pytest.mark.parametrize("control", CONTROLS)
def test_control_a_near_miss_is_seen(control, num_draft_tokens):
    """Case 29."""
    assert blocks(1.0, "plain", "full", num_draft_tokens, CONTROLS[control]).worst_deviation() > VISIBLE


def test_control_dividing_by_the_untruncated_q_is_seen():
    assert blocks(1.0, "plain", "truncated", 2, reported_support=6).worst_deviation() > VISIBLE


def test_control_one_lane_for_draft_and_acceptance_noise_is_seen():
    """Case 30."""
    assert blocks(1.0, "plain", "full", 2, how={"lanes_shared": True}).worst_deviation() > VISIBLE


def test_control_one_uniform_for_all_positions_is_seen():
    def verify(law_at, proposal, noise):
        return block.verify(law_at, proposal, _SameEverywhere(noise))

    assert blocks(1.0, "plain", "full", 3, verify).worst_deviation() > VISIBLE


def test_control_cutting_a_proposal_because_q_of_the_token_is_low_is_seen():
    def verify(law_at, proposal, noise):
        drawn = enumerate(zip(proposal.tokens, proposal.laws, strict=True))
        cuts = [i for i, (token, q) in drawn if q.weights[q.ids == token][0] < 0.2 * q.weights.sum()]
        return block.verify(law_at, _shortened(proposal, *cuts[:1]), noise)

    assert blocks(1.0, "plain", "full", 2, verify).worst_deviation() > VISIBLE


def test_control_dropping_an_unknown_id_instead_of_rejecting_it_is_seen():
    def verify(law_at, proposal, noise):
        cuts = [i for i, token in enumerate(proposal.tokens) if token >= 6]
        return block.verify(law_at, _shortened(proposal, *cuts[:1]), noise)

    assert blocks(1.0, "plain", "full", 2, verify, unknown_ids=2).worst_deviation() > VISIBLE


class _SameEverywhere:
    """Noise that forgets the position."""

    def __init__(self, noise):
        self._noise = noise
        self.target = noise.target

    def acceptance(self, position, base_len):
        return self._noise.acceptance(base_len, base_len)


def _shortened(proposal, kept=None):
    return Proposal(proposal.base_len, proposal.tokens[:kept], proposal.laws[:kept])
