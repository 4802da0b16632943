"""The Verifier: from the logits of a forward to a verdict."""

import numpy as np
import pytest

from forerun.errors import SequenceFault
from forerun.sampling.draw import draw_sparse, one_hot
from forerun.sampling.noise import TargetNoise
from forerun.types import Proposal, SamplingParams, SparseLaw, Verification
from target_service.rules import match
from target_service.verifier import Verifier

VOCAB, PADDED = 6, 8
CONTEXT = (0, 3)
GREEDY = SamplingParams(temperature=0, verification=Verification.MATCH)


def verifier(params=GREEDY, num_logprobs=None, seed=1):
    return Verifier(params, 2, seed, 0, VOCAB, num_logprobs)


def rows_for(*largest):
    """Logits whose largest real column is as told; the padding is larger still."""
    rows = np.random.default_rng(0).normal(size=(len(largest), PADDED)).astype(np.float32)
    rows[range(len(largest)), largest] = 9
    rows[:, VOCAB:] = 50
    return rows


def test_greedy_takes_the_proposed_tokens_while_they_are_the_argmax_and_then_its_own():
    verdict = verifier().verify(CONTEXT, Proposal(2, (4, 1, 1)), rows_for(4, 1, 5, 2))
    assert (verdict.base_len, verdict.num_accepted, verdict.token) == (2, 2, 5)
    assert verifier().verify(CONTEXT, Proposal(2, (4, 1, 5)), rows_for(4, 1, 5, 2)).token == 2


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("verification", Verification)
def test_a_padded_id_is_never_emitted(temperature, verification):
    """Case 1."""
    params = SamplingParams(temperature=temperature, verification=verification)
    tokens = {verifier(params, seed=seed).verify(CONTEXT, Proposal(2), rows_for(4)).token for seed in range(50)}
    assert max(tokens) < VOCAB


def test_the_forward_contains_nothing_from_the_first_unknown_id_on():
    assert verifier().usable(Proposal(2, (4, 1))) == (4, 1)
    assert verifier().usable(Proposal(2, (4, VOCAB, 1))) == (4,)
    assert verifier().usable(Proposal(2, (-1, 1))) == ()


def test_an_unknown_id_is_rejected_where_it_stands():
    verdict = verifier().verify(CONTEXT, Proposal(2, (4, VOCAB, 1)), rows_for(4, 2))
    assert (verdict.num_accepted, verdict.token) == (1, 2)


def test_an_unknown_id_is_rejected_under_rejection_too():
    params, base_len, noise = SamplingParams(), 2, TargetNoise(1, 0)
    q = SparseLaw(np.array([VOCAB + 3]), np.array([1]))
    proposal = Proposal(base_len, (draw_sparse(q, noise.draft(2, 2)),), (q,))
    assert verifier(params).usable(proposal) == ()
    verdict = verifier(params).verify(CONTEXT, proposal, rows_for(4))
    assert (verdict.num_accepted, verdict.refused) == (0, "")
    assert verdict.token < VOCAB


def test_a_refused_proposal_is_as_good_as_none_and_the_verdict_says_why():
    params = SamplingParams()
    bad = Proposal(2, (4, 1))
    assert verifier(params).usable(bad) == ()
    verdict = verifier(params).verify(CONTEXT, bad, rows_for(4))
    assert "0 laws" in verdict.refused
    assert verdict.token == verifier(params).verify(CONTEXT, Proposal(2), rows_for(4)).token


def test_a_proposal_for_another_place_is_not_used():
    verdict = verifier().verify(CONTEXT, Proposal(5, (4,)), rows_for(4, 1))
    assert (verdict.base_len, verdict.num_accepted, verdict.token) == (2, 0, 4)
    assert "2 are committed" in verdict.refused


def test_too_few_rows_are_a_fault_of_this_sequence():
    with pytest.raises(SequenceFault, match="1 rows"):
        verifier().verify(CONTEXT, Proposal(2, (4, 1)), rows_for(4))


def test_rows_after_the_first_rejection_are_not_looked_at():
    rows = rows_for(4, 1, 5)
    rows[1:] = np.nan
    assert verifier().verify(CONTEXT, Proposal(2, (3, 1)), rows).token == 4
    with pytest.raises(SequenceFault, match="finite"):
        verifier().verify(CONTEXT, Proposal(2, (4, 1)), rows)


def test_penalties_see_every_drafted_token_before_the_position():
    """Case 18: the second 4 is penalised because the first was drafted, not yet committed."""
    params = SamplingParams(temperature=0, presence_penalty=2.0, verification=Verification.MATCH)
    rows = np.zeros((3, PADDED), dtype=np.float32)
    rows[:, 4], rows[:, 2] = 3.0, 2.0
    verdict = verifier(params).verify(CONTEXT, Proposal(2, (4, 4)), rows)
    assert (verdict.num_accepted, verdict.token) == (1, 2)


def test_min_tokens_counts_tokens_and_not_rounds():
    """Case 18."""
    params = SamplingParams(temperature=0, min_tokens=2, stop_token_ids=(5,), verification=Verification.MATCH)
    verdict = verifier(params).verify(CONTEXT, Proposal(2, (4, 4)), rows_for(4, 4, 5))
    assert (verdict.num_accepted, verdict.token) == (2, 5)
    assert verifier(params).verify(CONTEXT, Proposal(2, (5,)), rows_for(5, 5)).num_accepted == 0


@pytest.mark.parametrize("verification", Verification)
def test_greedy_is_the_same_under_every_rule(verification):
    params = SamplingParams(temperature=0, verification=verification)
    noise = TargetNoise(1, 0)
    q = SparseLaw(np.array([1, 4]), np.array([1, 1]))
    token = draw_sparse(q, noise.draft(2, 2))
    verdict = verifier(params).verify(CONTEXT, Proposal(2, (token,), (q,)), rows_for(4, 2))
    assert (*((token,) * verdict.num_accepted), verdict.token)[0] == 4


def test_the_rule_on_one_hot_laws_agrees_with_the_greedy_path():
    rule = match.MatchRule(1, 0, VOCAB)
    proposal, largest = Proposal(2, (4, 1, 1)), (4, 1, 5, 2)
    outcome = rule.verify(lambda i: one_hot(VOCAB, largest[i]), proposal)
    assert outcome == match.verify(lambda i: largest[i], proposal)


def test_logprobs_are_the_raw_ones_of_every_emitted_token():
    """Case 22."""
    rows = rows_for(4, 2)
    params = SamplingParams(temperature=0, logit_bias=((4, -100.0),), verification=Verification.MATCH)
    verdict = verifier(params, num_logprobs=2).verify(CONTEXT, Proposal(2), rows)
    exact = rows[0, :VOCAB].astype(float)
    expected = exact - np.log(np.exp(exact).sum())
    assert verdict.logprobs[0].logprob == pytest.approx(expected[verdict.token], abs=1e-5)
    assert verdict.logprobs[0].top_ids[0] == 4
    accepted = verifier(num_logprobs=0).verify(CONTEXT, Proposal(2, (4,)), rows)
    assert len(accepted.logprobs) == 2
    assert verifier().verify(CONTEXT, Proposal(2), rows).logprobs == ()
