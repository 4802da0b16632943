"""paged_cpu against attention written as a loop over rows, heads and keys, on random ragged batches."""

import math

import numpy as np
import pytest
import torch

from forerun.engine import attention
from forerun.engine.attention.base import AttentionOptions, LayerCache, Segment

BLOCK_SIZE, NUM_BLOCKS, HEAD_DIM = 4, 80, 16
SCALE = HEAD_DIM**-0.5
# bf16 has 8 bits of mantissa: outputs are averages of values of order 1, weights and values are each rounded once.
TOLERANCES = {torch.float32: 1e-5, torch.bfloat16: 2e-2}


def random_batch(seed, shapes, num_heads, kv_heads, dtype):
    """Queries, a cache whose unused blocks are NaN, and segments of (query_len, context_len) in scattered blocks."""
    generator = torch.Generator().manual_seed(seed)
    size = (NUM_BLOCKS, BLOCK_SIZE, kv_heads, HEAD_DIM)
    keys, values = (torch.randn(size, generator=generator).to(dtype) for _ in range(2))
    free = torch.randperm(NUM_BLOCKS, generator=generator).tolist()
    segments, start = [], 0
    for query_len, context_len in shapes:
        table = [free.pop() for _ in range(math.ceil(context_len / BLOCK_SIZE))]
        segments.append(Segment(start, query_len, context_len, table))
        start += query_len
    keys[free] = values[free] = float("nan")
    query = 2 * torch.randn(start, num_heads, HEAD_DIM, generator=generator)
    return query.to(dtype), LayerCache(keys, values), segments


def by_loops(query, cache, segments, options):
    """The definition, in float64."""
    output = np.zeros(query.shape)
    for segment in segments:
        for row in range(segment.query_len):
            position = segment.context_len - segment.query_len + row
            first = 0 if options.sliding_window is None else max(0, position - options.sliding_window + 1)
            for head in range(query.shape[1]):
                kv_head = head // (query.shape[1] // cache.keys.shape[2])
                scores, values = [], []
                for place in range(first, position + 1):
                    slot = segment.block_table[place // BLOCK_SIZE], place % BLOCK_SIZE, kv_head
                    score = float(query[segment.start + row, head].double() @ cache.keys[slot].double()) * options.scale
                    if options.softcap is not None:
                        score = options.softcap * math.tanh(score / options.softcap)
                    scores.append(score)
                    values.append(cache.values[slot].double().numpy())
                weights = np.exp(scores)
                sink = 0.0 if options.sinks is None else math.exp(options.sinks[head])
                output[segment.start + row, head] = weights @ np.array(values) / (weights.sum() + sink)
    return output


def ragged(seed):
    generator = np.random.default_rng(seed)
    shapes = [(1, 1), (1, 30), (17, 17), (5, 21)]
    for _ in range(4):
        query_len = int(generator.choice([1, 1, 2, 5, 9]))
        shapes.append((query_len, query_len + int(generator.integers(0, 25))))
    return [shapes[index] for index in generator.permutation(len(shapes))]


@pytest.mark.parametrize("dtype", list(TOLERANCES), ids=str)
@pytest.mark.parametrize("backend", ["paged_cpu", "paged_rowwise"])
@pytest.mark.parametrize("heads", [(4, 4), (6, 2), (5, 1)], ids=str)
@pytest.mark.parametrize("features", ["plain", "window", "softcap", "sinks", "all"])
def test_a_ragged_batch_equals_the_definition(features, heads, backend, dtype):
    torch.set_num_threads(1)
    sinks = torch.randn(heads[0], generator=torch.Generator().manual_seed(3))
    options = AttentionOptions(
        SCALE,
        sliding_window=7 if features in ("window", "all") else None,
        softcap=3.0 if features in ("softcap", "all") else None,
        sinks=sinks if features in ("sinks", "all") else None,
    )
    for seed in range(2):
        query, cache, segments = random_batch(seed, ragged(seed), *heads, dtype)
        engine = attention.create(backend)
        plan = engine.plan(segments, BLOCK_SIZE, torch.device("cpu"))
        expected = by_loops(query, cache, segments, options)
        for _ in range(2):  # the second layer reuses what the first prepared
            ours = engine.attend(query, cache, plan, options)
            assert ours.dtype == dtype
            np.testing.assert_allclose(ours.double().numpy(), expected, atol=TOLERANCES[dtype], rtol=0)


def test_layers_with_and_without_a_window_share_a_plan():
    query, cache, segments = random_batch(5, [(1, 30), (3, 20), (1, 9)], 4, 2, torch.float32)
    engine = attention.create("paged_cpu")
    plan = engine.plan(segments, BLOCK_SIZE, torch.device("cpu"))
    for window in (5, None, 9, 5):
        options = AttentionOptions(SCALE, sliding_window=window)
        ours = engine.attend(query, cache, plan, options)
        np.testing.assert_allclose(ours.double().numpy(), by_loops(query, cache, segments, options), atol=1e-5)


def test_a_strided_query_is_attended_like_a_contiguous_one():
    query, cache, segments = random_batch(6, [(4, 12), (4, 9)], 4, 2, torch.float32)
    engine = attention.create("paged_cpu")
    plan = engine.plan(segments, BLOCK_SIZE, torch.device("cpu"))
    strided = query.transpose(0, 1).contiguous().transpose(0, 1)
    options = AttentionOptions(SCALE)
    assert torch.equal(engine.attend(strided, cache, plan, options), engine.attend(query, cache, plan, options))
