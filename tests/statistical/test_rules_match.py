"""match emits the same ids whatever the draft does. Equality of ids, so no false alarm. Cases 4, 7, 9, 17, 18, 20."""

import numpy as np
import pytest

from forerun.types import Proposal, SamplingParams, Verification
from target_service.rules import Outcome, match
from tests.support.rule_runs import alone, generate, honest
from tests.support.rule_world import PROMPT, World

NUM_TOKENS = 24
SAMPLING = {
    "greedy": {"temperature": 0.0},
    "greedy_penalties": {"temperature": 0.0, "repetition_penalty": 1.3, "frequency_penalty": 0.4},
    "greedy_min_tokens": {"temperature": 0.0, "min_tokens": 9, "stop_token_ids": (1, 2)},
    "plain": {},
    "cool_top_p": {"temperature": 0.7, "top_p": 0.8},
    "top_k_bias": {"top_k": 3, "logit_bias": ((2, -100.0), (4, 1.0))},
    "penalties": {"presence_penalty": 0.6, "frequency_penalty": 0.4, "repetition_penalty": 1.3},
}


def always(token):
    return lambda prefix, k, seed: Proposal(len(PROMPT) + len(prefix), (token,) * k)


def random_tokens(prefix, k, seed):
    """Ids inside and outside the vocabulary, in no relation to any law."""
    rng = np.random.default_rng([seed, len(prefix)])
    return Proposal(len(PROMPT) + len(prefix), tuple(rng.integers(0, 9, k).tolist()))


def repeating(prefix, k, seed):
    """An n-gram draft: what followed the last token the last time."""
    context = PROMPT + prefix
    earlier = [i for i in range(len(context) - 1) if context[i] == context[-1]]
    tail = context[earlier[-1] + 1 :] if earlier else ()
    return Proposal(len(context), tail[:k])


@pytest.mark.parametrize("num_draft_tokens", range(1, 9))
@pytest.mark.parametrize("sampling", SAMPLING)
def test_the_ids_of_a_seed_are_those_of_the_target_alone(sampling, num_draft_tokens):
    params = SamplingParams(verification=Verification.MATCH, **SAMPLING[sampling])
    world = World(params, 6, 1)
    drafts = {"good": honest(world), "always": always(1), "random": random_tokens, "ngram": repeating}
    for seed in range(3):
        reference, _ = generate(world, seed, NUM_TOKENS, alone, 0)
        for name, propose in drafts.items():
            assert generate(world, seed, NUM_TOKENS, propose, num_draft_tokens)[0] == reference, name


@pytest.mark.parametrize("sampling", SAMPLING)
def test_control_a_rule_that_lets_the_first_drafted_token_pass_is_seen(sampling, monkeypatch):
    params = SamplingParams(verification=Verification.MATCH, **SAMPLING[sampling])
    world = World(params, 6, 1)
    reference, _ = generate(world, 0, NUM_TOKENS, alone, 0)
    monkeypatch.setattr(match, "verify", lambda draw_at, proposal: Outcome(1, draw_at(1)))
    assert generate(world, 0, NUM_TOKENS, always(1), 4)[0] != reference


def test_the_same_seed_five_times_is_the_same_text_and_another_choice_is_not():
    """Cases 7, 8, 21."""
    world = World(SamplingParams(verification=Verification.MATCH), 6, 1)
    texts = {generate(world, 5, NUM_TOKENS, honest(world), k)[0] for k in (1, 2, 3, 4, 5)}
    assert len(texts) == 1
    others = {generate(world, 5, NUM_TOKENS, alone, 0, choice=choice)[0] for choice in range(4)}
    assert len(others) == 4


def test_two_hundred_seeds_give_two_hundred_texts(monkeypatch):
    """Case 8; and noise that is the same for every seed is seen."""
    world = World(SamplingParams(verification=Verification.MATCH), 6, 1)

    def num_texts():
        return len({generate(world, seed, NUM_TOKENS, honest(world), 3)[0] for seed in range(200)})

    assert num_texts() == 200
    monkeypatch.setattr(match, "derive_key", lambda *_: bytes(16))
    assert num_texts() == 1
