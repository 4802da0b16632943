"""Whatever the order in which tokens are computed, the logits are those of transformers' own forward (case 26)."""

import numpy as np
import pytest
import torch

from tests.parity import families
from tests.parity.paged import Paged, load, random_tokens

TOLERANCE = 1e-4  # fp32, logits of order 1
LENGTH = 70


@pytest.fixture(scope="module", params=list(families.FAMILIES))
def world(request, tmp_path_factory):
    """(loaded model, transformers' forward) of each family."""
    torch.set_num_threads(1)
    folder = families.build(tmp_path_factory.mktemp(request.param), request.param)
    return load(folder), families.reference(folder)


@pytest.fixture
def tokens():
    return random_tokens(1, LENGTH)


def close(ours, theirs):
    np.testing.assert_allclose(ours, theirs, atol=TOLERANCE, rtol=0)


def test_a_whole_prefill(world, tokens):
    loaded, reference = world
    close(Paged(loaded).whole(tokens), reference(tokens))


@pytest.mark.parametrize("chunk", [1, 7, 16, 33])
def test_a_prefill_in_chunks(world, tokens, chunk):
    loaded, reference = world
    engine = Paged(loaded, block_size=8)
    sequence = engine.open(tokens, num_logits=1)
    close(engine.run(sequence, prefill=chunk)[0][0], reference(tokens)[-1])


def test_decoding_one_by_one(world, tokens):
    loaded, reference = world
    engine = Paged(loaded)
    sequence = engine.open(tokens[:5])
    logits = [engine.run(sequence)[0]] + [engine.extend(sequence, [token]) for token in tokens[5:]]
    close(np.concatenate(logits), reference(tokens))


@pytest.mark.parametrize("num_draft_tokens", [1, 4, 8])
def test_verification_of_k_drafted_tokens(world, tokens, num_draft_tokens):
    loaded, reference = world
    engine = Paged(loaded)
    sequence = engine.open(tokens[:37], num_logits=1)
    engine.run(sequence)
    rows = engine.extend(sequence, tokens[37 : 37 + num_draft_tokens], num_draft_tokens + 1)
    close(rows, reference(tokens)[36 : 37 + num_draft_tokens])


def test_a_ragged_batch_of_eight_equals_solo_runs(world):
    loaded, reference = world
    engine = Paged(loaded)
    prompts = [random_tokens(seed, length) for seed, length in enumerate([1, 3, 17, 64, 70, 5, 33, 16])]
    sequences = [engine.open(prompt) for prompt in prompts]
    for prompt, logits in zip(prompts, engine.run(*sequences), strict=True):
        close(logits, reference(prompt))
    for round_number in range(3):
        drafts = [random_tokens(100 * round_number + n, (n * 3 + round_number) % 7) for n in range(8)]
        for prompt, sequence, draft in zip(prompts, sequences, drafts, strict=True):
            prompt += draft
            sequence.tokens += draft
            engine.table.demand(sequence, len(draft) + 1)
        for prompt, draft, logits in zip(prompts, drafts, engine.run(*sequences), strict=True):
            close(logits, reference(prompt)[-len(draft) - 1 :])
            del prompt[len(prompt) - len(draft) // 2 :]
        for prompt, sequence in zip(prompts, sequences, strict=True):
            engine.table.truncate(sequence, len(prompt))


@pytest.mark.parametrize("cut", [1, 31, 32, 33, 47, 48, 49])
def test_extend_truncate_extend_equals_a_fresh_run(world, tokens, cut):
    loaded, reference = world
    engine = Paged(loaded)
    sequence = engine.open(tokens[:50], num_logits=1)
    engine.run(sequence)
    engine.extend(sequence, random_tokens(9, 9))
    engine.table.truncate(sequence, cut)
    rest = tokens[50 : 50 + LENGTH - cut]
    rows = engine.extend(sequence, rest)
    close(rows, reference(tokens[:cut] + rest)[-len(rest) :])


def test_a_reused_prefix_equals_none(world, tokens):
    loaded, reference = world
    engine = Paged(loaded)
    first = engine.open(tokens[:50], num_logits=1)
    engine.run(first)
    engine.close(first)
    prompt = tokens[:50] + random_tokens(5, 20)
    second = engine.open(prompt, num_logits=10)
    close(engine.run(second)[0], reference(prompt)[-10:])
    assert second.num_cached_tokens == 48


def test_two_that_share_a_prefix_and_diverge_do_not_disturb_each_other(world, tokens):
    loaded, reference = world
    engine = Paged(loaded)
    first = engine.open(tokens[:48], num_logits=1)
    engine.run(first)
    second = engine.open([*tokens[:48], 7], num_logits=1)
    engine.run(second)
    assert second.num_cached_tokens == 48
    engine.table.truncate(second, 40)
    close(engine.extend(second, [9] * 12), reference(tokens[:40] + [9] * 12)[-12:])
    close(engine.extend(first, tokens[48:60]), reference(tokens[:60])[-12:])


def test_after_a_preemption_it_goes_on_as_if_there_had_been_none(world, tokens):
    loaded, reference = world
    engine = Paged(loaded, num_blocks=6)
    first, second = engine.open(tokens[:40], num_logits=1), engine.open(tokens[10:50], num_logits=1)
    engine.run(first, second)
    for sequence, tail in ((first, tokens[40:52]), (second, tokens[50:62])):
        sequence.tokens += tail
        engine.table.demand(sequence, 13)
    close(engine.step()[first], reference(tokens[:52])[-13:])
    assert engine.scheduler.num_preemptions == 1
    engine.close(first)
    close(engine.run(second)[0], reference(tokens[10:62])[-13:])
