"""A cache in FP8 through the engine: the numbers of keys and values rounded to e4m3 with fixed scales, nothing else."""

import numpy as np
import pytest
import torch

from forerun.engine import kv_calibration
from forerun.engine.kv_cache import KvCache, KvShape
from tests.parity.paged import CPU, Paged, load, random_tokens

E4M3 = torch.float8_e4m3fn
TOLERANCE = 1e-4  # fp32 activations, logits of order 1
TOKENS = random_tokens(5, 40)


@pytest.fixture(scope="module")
def loaded(tiny_pair):
    return load(tiny_pair.target)


@pytest.fixture(scope="module")
def scales(loaded):
    return kv_calibration.calibrate(loaded, KvShape.of(loaded.config, loaded.dtype), CPU)


class Rounded(KvCache):
    """A float32 cache that rounds what it is given to e4m3 with `scales`."""

    def __init__(self, shape, scales, block_size=16):
        super().__init__(shape, 64, block_size, CPU)
        self.scales = scales

    def write(self, layer, slots, keys, values):
        pairs = ((keys, self.scales.keys[layer]), (values, self.scales.values[layer]))
        super().write(
            layer, slots, *((side / s[:, None]).clamp(-448, 448).to(E4M3).float() * s[:, None] for side, s in pairs)
        )


def on(loaded, cache):
    """The engine over another cache."""
    engine = Paged(loaded)
    engine.runner._cache = cache
    return engine


def fp8(loaded, scales):
    shape = KvShape.of(loaded.config, E4M3)
    return on(loaded, KvCache(shape, 64, 16, CPU, scales))


def test_logits_are_those_of_rounded_keys_and_values(loaded, scales):
    plain = KvShape.of(loaded.config, loaded.dtype)
    expected = on(loaded, Rounded(plain, scales)).whole(TOKENS)
    np.testing.assert_allclose(fp8(loaded, scales).whole(TOKENS), expected, atol=TOLERANCE, rtol=0)
    assert abs(Paged(loaded).whole(TOKENS) - expected).max() > 10 * TOLERANCE, "FP8 would be seen"


def test_chunks_decoding_and_verification_agree_with_a_whole_prefill(loaded, scales):
    whole = fp8(loaded, scales).whole(TOKENS)
    engine = fp8(loaded, scales)
    sequence = engine.open(TOKENS[:20], num_logits=1)
    rows = [engine.run(sequence, prefill=7)[0][-1:]]
    rows.append(engine.extend(sequence, TOKENS[20:21]))
    rows.append(engine.extend(sequence, TOKENS[21:26]))
    np.testing.assert_allclose(np.concatenate(rows), whole[19:26], atol=TOLERANCE, rtol=0)


def test_scales_leave_room_for_twice_what_was_seen(loaded, scales):
    module = loaded.forward.module
    ids = torch.linspace(0, 63, kv_calibration.NUM_TOKENS).long()
    with torch.inference_mode():
        normed = module.model.layers[0].input_layernorm(module.model.embed_tokens(ids))
        values = module.model.layers[0].self_attn.v_proj(normed).view(len(ids), 2, 8)
    expected = 2 * values.abs().amax((0, 2)) / 448
    torch.testing.assert_close(scales.values[0], expected, rtol=1e-5, atol=0)
    assert scales.keys.shape == scales.values.shape == (2, 2)


def test_blocks_are_cleared_copied_and_half_as_large(loaded):
    shape = KvShape.of(loaded.config, E4M3)
    assert 2 * shape.bytes_per_token == KvShape.of(loaded.config, torch.bfloat16).bytes_per_token
    cache = KvCache(shape, 4, 16, CPU)
    rows = torch.randn(16, 2, 8)
    cache.write(1, torch.arange(16), rows, -rows)
    cache.copy([0], [2])
    assert torch.equal(cache.layers[1].keys[2].float(), rows.to(E4M3).float())
    cache.clear([0])
    assert not cache.layers[1].keys[0].float().any()
    assert cache.layers[1].values[2].float().any()
