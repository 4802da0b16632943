"""The rejection rule by exact enumeration: its law is the target's, and near misses are seen to miss it.

Nothing here is sampled, so there is no false alarm: probabilities agree to 1e-9 or the rule is wrong.
Cases 4, 5, 6, 17, 29, 30.
"""

from itertools import product

import numpy as np
import pytest

from forerun.types import Proposal, SamplingParams
from target_service.rules import Outcome, rejection
from tests.support.rule_blocks import Blocks
from tests.support.rule_cells import Cell
from tests.support.rule_world import FILTERS, World

EXACT = 1e-9
VISIBLE = 0.01  # a negative control must miss the target's law by at least this total variation

TEMPERATURES = (0.0, 0.7, 1.0)
SUPPORTS = {"full": 8, "truncated": 2, "one_hot": 1}
LENGTHS = range(1, 9)


def world(temperature, filters, support, num_draft_tokens, **more):
    """Penalties make laws depend on all of the context; fewer ids keep the long proposals of those countable."""
    counts = "presence_penalty" in FILTERS[filters]
    vocab_size = (5 if num_draft_tokens < 6 else 4) if counts else 6
    params = SamplingParams(temperature=temperature, **FILTERS[filters])
    return World(params, vocab_size, SUPPORTS[support], **more)


@pytest.mark.parametrize("num_draft_tokens", LENGTHS)
@pytest.mark.parametrize("support", SUPPORTS)
@pytest.mark.parametrize("filters", FILTERS)
@pytest.mark.parametrize("temperature", TEMPERATURES)
def test_what_is_emitted_has_the_targets_law(temperature, filters, support, num_draft_tokens):
    cell = Cell(world(temperature, filters, support, num_draft_tokens), num_draft_tokens)
    assert cell.worst_deviation() < EXACT


@pytest.mark.parametrize("support", SUPPORTS)
@pytest.mark.parametrize("filters", ["plain", "top_p", "all"])
def test_whole_runs_continued_by_the_target_have_its_autoregressive_law(filters, support):
    """The same statement without the chain rule: a check on the check."""
    here = World(SamplingParams(temperature=0.7, **FILTERS[filters]), 5, SUPPORTS[support])
    runs = Cell(here, 2).run_law()
    assert abs(sum(runs.values()) - 1) < EXACT
    for sequence in product(range(5), repeat=3):
        emitted = sum(runs.get(sequence[:n], 0.0) * continued(here, sequence, n) for n in range(1, 4))
        assert abs(emitted - continued(here, sequence, 0)) < EXACT


def continued(here, sequence, start):
    """The target's own probability of what follows the first `start` tokens of the sequence."""
    return float(np.prod([here.target(sequence[:i])[sequence[i]] for i in range(start, len(sequence))]))


@pytest.mark.parametrize("num_draft_tokens", [1, 2, 4])
@pytest.mark.parametrize("temperature", [0.7, 1.0])
def test_ids_that_the_target_lacks_are_rejected_without_a_bias(temperature, num_draft_tokens):
    cell = Cell(world(temperature, "plain", "full", num_draft_tokens, unknown_ids=2), num_draft_tokens)
    assert cell.worst_deviation() < EXACT


@pytest.mark.parametrize("num_draft_tokens", [2, 4])
def test_a_draft_may_stop_where_what_it_drafted_so_far_says_so(num_draft_tokens):
    """Its own q of the tokens that it proposes included; the control is the token that is withheld for its own q."""
    here = World(SamplingParams(**FILTERS["penalties"]), 4, 8)

    def is_unsure(prefix):
        return bool(prefix) and here.draft(prefix[:-1])[prefix[-1]] < 0.4

    counted = Blocks(here, num_draft_tokens, rejection.verify, stops=is_unsure)
    assert counted.survival()[-1] < Blocks(here, num_draft_tokens, rejection.verify).survival()[-1]
    assert counted.worst_deviation() < EXACT


def test_control_dividing_by_the_untruncated_q_is_seen():
    assert Cell(world(1.0, "plain", "truncated", 2, reported_support=6), 2).worst_deviation() > VISIBLE


def test_control_subtracting_q_only_at_the_drafted_token_is_seen():
    """Case 29."""
    assert Cell(world(1.0, "plain", "full", 2), 2, _subtracting_at_the_token_alone).worst_deviation() > VISIBLE


def test_control_one_lane_for_draft_and_acceptance_noise_is_seen():
    """Case 30."""
    assert Cell(world(1.0, "plain", "full", 2), 2, lanes_shared=True).worst_deviation() > VISIBLE


def test_control_cutting_a_proposal_because_q_of_the_token_is_low_is_seen():
    assert Cell(world(1.0, "plain", "full", 2), 2, _cutting_unlikely_tokens).worst_deviation() > VISIBLE


def test_control_dropping_an_unknown_id_instead_of_rejecting_it_is_seen():
    here = world(1.0, "plain", "full", 2, unknown_ids=2)
    assert Cell(here, 2, _dropping_unknown_ids).worst_deviation() > VISIBLE


def _subtracting_at_the_token_alone(law_at, proposal, noise):
    for i, (token, q) in enumerate(zip(proposal.tokens, proposal.laws, strict=True)):
        p = law_at(i)
        if not rejection.accepts(p, q, token, noise.acceptance(proposal.base_len + i, proposal.base_len)):
            rest = p.copy()
            rest[token] = max(p[token] - q.weights[q.ids == token][0] / q.weights.sum(), 0.0)
            return Outcome(i, rejection.draw(rest, 0.5))
    return Outcome(len(proposal.tokens), rejection.draw(law_at(len(proposal.tokens)), 0.5))


def _cutting_unlikely_tokens(law_at, proposal, noise):
    kept = 0
    for token, q in zip(proposal.tokens, proposal.laws, strict=True):
        if q.weights[q.ids == token][0] < 0.2 * q.weights.sum():
            break
        kept += 1
    return rejection.verify(law_at, _shortened(proposal, kept), noise)


def _dropping_unknown_ids(law_at, proposal, noise):
    vocab_size = len(law_at(0))
    kept = next((i for i, token in enumerate(proposal.tokens) if token >= vocab_size), len(proposal.tokens))
    return rejection.verify(law_at, _shortened(proposal, kept), noise)


def _shortened(proposal, kept):
    return Proposal(proposal.base_len, proposal.tokens[:kept], proposal.laws[:kept])
