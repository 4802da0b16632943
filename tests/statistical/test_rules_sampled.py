"""The rules with their keyed noise, through the Verifier: the joint law of the first three tokens over many seeds.

False alarm: 1e-6 a test, by chi-square. Seeds are fixed, so a run either always passes or never. The controls exceed
the bound by 1000 and more, of which other seeds take or give 70 (a standard deviation), the one without base_len by
280, of which they take or give 40: none is ever missed.
"""

import pytest

from forerun.sampling.noise import KeyedNoise, TargetNoise
from forerun.types import SamplingParams, Verification
from target_service.rules import Outcome, match
from tests.support.rule_runs import alone, chi_square, generate, honest, hostile
from tests.support.rule_world import World

NUM_RUNS = 3000
NUM_TOKENS = 3


def world(verification=Verification.REJECTION, support=8, temperature=1.0, **more):
    unknown_ids = more.pop("unknown_ids", 0)
    params = SamplingParams(temperature=temperature, verification=verification, **more)
    return World(params, 5, support, unknown_ids=unknown_ids)


def runs(here, propose, num_draft_tokens, num_runs=NUM_RUNS):
    return [generate(here, seed, NUM_TOKENS, propose, num_draft_tokens)[0] for seed in range(num_runs)]


@pytest.mark.parametrize(
    ("num_draft_tokens", "more"),
    [
        (1, {"support": 8}),
        (2, {"support": 2, "temperature": 0.7}),
        (4, {"support": 1}),
        (8, {"support": 8, "top_p": 0.8}),
        (3, {"support": 2, "presence_penalty": 0.6, "repetition_penalty": 1.3}),
        (3, {"support": 8, "unknown_ids": 2}),
    ],
    ids=str,
)
@pytest.mark.parametrize("verification", [Verification.REJECTION, Verification.BLOCK])
def test_with_an_honest_draft_the_law_is_the_targets(verification, num_draft_tokens, more):
    """Cases 4, 5, 6, 8, 29, 30."""
    here = world(verification, **more)
    assert chi_square(here, runs(here, honest(here), num_draft_tokens)) < 0


@pytest.mark.parametrize("verification", Verification)
def test_the_target_alone_has_its_law(verification):
    here = world(verification)
    assert chi_square(here, runs(here, alone, 0)) < 0


@pytest.mark.parametrize("more", [{}, {"top_k": 2, "temperature": 0.7}, {"frequency_penalty": 0.8}], ids=str)
def test_match_with_a_coupled_draft_has_the_targets_law(more):
    here = world(Verification.MATCH, **more)
    assert chi_square(here, runs(here, honest(here), 3)) < 0


def test_control_match_that_trusts_the_first_drafted_token_is_seen(monkeypatch):
    monkeypatch.setattr(match, "verify", _trusting_the_first_token)
    here = world(Verification.MATCH)
    assert chi_square(here, runs(here, honest(here), 3)) > 0


def _trusting_the_first_token(draw_at, proposal):
    num_accepted = min(1, len(proposal.tokens))
    return Outcome(num_accepted, draw_at(num_accepted))


@pytest.mark.parametrize("verification", [Verification.REJECTION, Verification.BLOCK])
def test_control_one_lane_for_draft_and_acceptance_is_seen_in_samples_too(monkeypatch, verification):
    """Case 30."""
    monkeypatch.setattr(TargetNoise, "acceptance", TargetNoise.draft)
    here = world(verification)
    assert chi_square(here, runs(here, honest(here), 2)) > 0


def test_control_keys_that_forget_the_base_len_are_seen(monkeypatch):
    """Block spends noise beyond what it accepts: the next round must not meet it again."""
    monkeypatch.setattr(KeyedNoise, "uniform", _without_base_len(KeyedNoise.uniform))
    here = world(Verification.BLOCK, support=2)
    assert chi_square(here, runs(here, honest(here), 3)) > 0


def _without_base_len(uniform):
    return lambda noise, position, base_len, lane: uniform(noise, position, 0, lane)


@pytest.mark.parametrize("verification", [Verification.REJECTION, Verification.BLOCK])
def test_control_a_hostile_draft_biases_the_text(verification):
    """It passes the redraw: that finds bugs, not liars. Hence untrusted drafts run under match."""
    here = world(verification)
    assert chi_square(here, runs(here, hostile(4, 3), 1)) > 0


def test_the_same_hostile_draft_changes_no_token_under_match():
    """Case 9."""
    here = world(Verification.MATCH)
    propose = hostile(4, 3)
    for seed in range(300):
        assert generate(here, seed, 12, propose, 4)[0] == generate(here, seed, 12, alone, 0)[0]


def test_coupling_makes_drafts_agree_more_often_than_independent_draws_would():
    """Chance fails this less than once in a million: the gap is over ten standard errors."""
    here = world(Verification.MATCH)
    accepted = sum(generate(here, seed, NUM_TOKENS, honest(here), 1)[1] for seed in range(1000))
    blind = sum(generate(here, seed, NUM_TOKENS, _seeded_elsewhere(honest(here)), 1)[1] for seed in range(1000))
    assert accepted > 1.2 * blind


def _seeded_elsewhere(propose):
    return lambda prefix, k, seed: propose(prefix, k, seed + 10**6)
