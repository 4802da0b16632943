"""What an earlier sequence left in a block reaches nobody, be it NaN."""

import numpy as np
import pytest
import torch

from tests.parity.paged import Paged, load, random_tokens


@pytest.fixture(scope="module")
def loaded(tiny_pair):
    return load(tiny_pair.target)


def poisoned(loaded, **options):
    engine = Paged(loaded, **options)
    for layer in engine.cache.layers:
        layer.keys[:-1] = float("nan")
        layer.values[:-1] = float("inf")
    return engine


@pytest.mark.parametrize("deterministic", [False, True])
@pytest.mark.parametrize("chunk", [5, 16, 40, 4096])
def test_a_poisoned_cache_changes_no_logit_of_a_ragged_batch(loaded, deterministic, chunk):
    prompts = [random_tokens(seed, length) for seed, length in enumerate([1, 5, 16, 17, 31, 40, 63])]
    outputs = []
    for engine in (
        Paged(loaded, deterministic=deterministic),
        poisoned(loaded, deterministic=deterministic),
    ):
        sequences = [engine.open(prompt, num_logits=1) for prompt in prompts]
        logits = engine.run(*sequences, prefill=chunk)
        for round_number in range(4):
            for sequence in sequences:
                sequence.tokens += random_tokens(round_number, 6)
                engine.table.demand(sequence, 7)
            logits += engine.run(*sequences)
            for sequence in sequences:
                engine.table.truncate(sequence, len(sequence.tokens) - 3)
        outputs.append(np.concatenate(logits))
    np.testing.assert_array_equal(*outputs)


def test_the_poison_would_be_seen_if_blocks_were_not_cleared(loaded, monkeypatch):
    engine = poisoned(loaded)
    monkeypatch.setattr(engine.cache, "clear", lambda blocks: None)
    sequences = [engine.open(random_tokens(seed, length), num_logits=1) for seed, length in ((1, 5), (2, 9))]
    assert not np.isfinite(np.concatenate(engine.run(*sequences))).all()


def test_a_sequence_that_computed_nan_leaves_none_to_the_next(loaded):
    engine = Paged(loaded, num_blocks=4)
    clean = engine.whole(random_tokens(2, 40))
    weight = loaded.forward.module.model.layers[0].self_attn.v_proj.weight
    kept = weight.clone()
    with torch.no_grad():
        weight.fill_(float("nan"))
    broken = engine.open(random_tokens(1, 60), num_logits=1)
    assert not np.isfinite(engine.run(broken)[0]).all()
    engine.table.disown(broken)
    engine.close(broken)
    with torch.no_grad():
        weight.copy_(kept)
    np.testing.assert_allclose(engine.whole(random_tokens(2, 40)), clean, atol=1e-5)
    sequence = engine.open(random_tokens(1, 60), num_logits=1)
    assert np.isfinite(engine.run(sequence)[0]).all()
    assert sequence.num_cached_tokens == 0
