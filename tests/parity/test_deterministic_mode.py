"""The deterministic engine in bf16: no neighbour, chunk or number of drafted tokens changes a bit (case 10)."""

import numpy as np
import pytest

from tests.parity.paged import Paged, load, random_tokens

TINY = 64


@pytest.fixture(scope="module", params=["tiny", pytest.param("bundled", marks=pytest.mark.full)])
def world(request):
    """(model, ids in its vocabulary, length of the prompt under test)."""
    if request.param == "tiny":
        return load(request.getfixturevalue("tiny_pair").target, "bf16"), TINY, 75
    return load(request.getfixturevalue("bundled_model"), "bf16"), 49152, 45


def deterministic(loaded):
    return Paged(loaded, num_blocks=128, deterministic=True)


@pytest.fixture(scope="module")
def alone(world):
    """The tokens under test and their logits, computed alone and in one go."""
    loaded, vocab_size, length = world
    tokens = random_tokens(1, length, vocab_size)
    return tokens, deterministic(loaded).whole(tokens)


def test_one_row_at_a_time_equals_all_at_once(world, alone):
    tokens, expected = alone
    engine = deterministic(world[0])
    sequence = engine.open(tokens[:3])
    logits = [engine.run(sequence)[0]] + [engine.extend(sequence, [token]) for token in tokens[3:]]
    np.testing.assert_array_equal(np.concatenate(logits), expected)


@pytest.mark.parametrize("chunk", [1, 5, 16, 17, 64])
def test_any_chunking_equals_all_at_once(world, alone, chunk):
    tokens, expected = alone
    engine = deterministic(world[0])
    sequence = engine.open(tokens, num_logits=1)
    np.testing.assert_array_equal(engine.run(sequence, prefill=chunk)[0][0], expected[-1])


@pytest.mark.parametrize("num_draft_tokens", [1, 3, 8, 16])
def test_verification_of_k_tokens_equals_one_row_at_a_time(world, alone, num_draft_tokens):
    tokens, expected = alone
    engine = deterministic(world[0])
    sequence = engine.open(tokens[:20], num_logits=1)
    engine.run(sequence)
    position = 20
    while position < len(tokens):
        draft = tokens[position : position + num_draft_tokens]
        rows = engine.extend(sequence, draft, len(draft) + 1)
        np.testing.assert_array_equal(rows, expected[position - 1 : position + len(draft)])
        position += len(draft)


@pytest.mark.parametrize("place", [0, 7, 15])
def test_in_a_batch_of_sixteen_it_equals_itself_alone(world, alone, place):
    loaded, vocab_size, _ = world
    tokens, expected = alone
    engine = deterministic(loaded)
    neighbours = [random_tokens(100 + n, 1 + 4 * n, vocab_size) for n in range(15)]
    prompts = [*neighbours[:place], tokens[:20], *neighbours[place:]]
    sequences = [engine.open(prompt, num_logits=1) for prompt in prompts]
    ours = sequences[place]
    np.testing.assert_array_equal(engine.run(*sequences, prefill=48)[place][0], expected[19])
    for position in range(20, 32, 3):
        for number, sequence in enumerate(sequences):
            sequence.tokens += (
                tokens[position : position + 3] if sequence is ours else random_tokens(position, number % 4)
            )
            engine.table.demand(sequence, 4 if sequence is ours else 1)
        rows = engine.run(*sequences)[place]
        np.testing.assert_array_equal(rows, expected[position - 1 : position + 3])


def test_the_fast_engine_is_not_bit_identical_so_this_test_has_power(world):
    loaded, vocab_size, length = world
    tokens = random_tokens(1, length, vocab_size)
    whole = Paged(loaded, num_blocks=128).whole(tokens)
    engine = Paged(loaded, num_blocks=128)
    sequence = engine.open(tokens[:3])
    logits = [engine.run(sequence)[0]] + [engine.extend(sequence, [token]) for token in tokens[3:]]
    assert not np.array_equal(np.concatenate(logits), whole)
