"""What int4 makes of weights: how near they stay, and that those which had 4 bits already lose nothing."""

import pytest
import torch
from torch import nn

from forerun.engine.quant import int4, int8
from forerun.engine.quant.integer import IntegerLinear


def normal(columns=48, depth=100):
    return torch.randn(columns, depth, generator=torch.Generator().manual_seed(0)).bfloat16()


def of_four_bits(columns=48, depth=128):
    """As a GGUF file of type Q4_1 has them: sixteen numbers a group, from its least to its greatest."""
    generator = torch.Generator().manual_seed(0)
    levels = torch.randint(16, (columns, depth // int4.GROUP, int4.GROUP), generator=generator)
    levels[..., 0], levels[..., 1] = 0, 15
    steps, least = (torch.rand(2, columns, depth // int4.GROUP, 1, generator=generator) + 0.1) / 100
    return ((levels * steps - 8 * least).half().bfloat16()).flatten(1)


def widened(weight):
    groups, scale = int4.quantized(weight)
    return groups.codes()[:, : weight.shape[1]].float() * scale.float()[:, None]


def test_a_weight_moves_by_half_a_step_of_its_group_and_half_a_level_of_its_channel():
    weight = normal()
    groups, scale = int4.quantized(weight)
    steps = (groups.steps / 256).repeat_interleave(int4.GROUP, dim=1)[:, : weight.shape[1]]
    bound = (steps / 2 + 0.5 + 16 / 256) * scale.float()[:, None]
    assert ((widened(weight) - weight.float()).abs() <= bound).all()


def lost(weight):
    """Root mean square of int4's errors, to that of int8's."""
    codes, scale = int8.quantized(weight)
    in_eight = codes.float() * scale.float()[:, None]
    return ((widened(weight) - weight.float()).norm() / (in_eight - weight.float()).norm()).item()


def test_weights_that_had_four_bits_lose_what_they_lose_in_int8():
    assert lost(of_four_bits()) < 1.15


def test_weights_that_had_more_lose_more():
    """The control."""
    assert lost(normal()) > 3


@pytest.mark.parametrize("value", [0.0, 1.0, -3.0])
def test_weights_that_are_all_alike_stay_so(value):
    weight = torch.full((3, 40), value).bfloat16()
    torch.testing.assert_close(widened(weight), weight.float(), rtol=0.004, atol=0)


def test_codes_stay_within_eight_bits_however_a_scale_was_rounded():
    for seed in range(200):
        weight = torch.randn(1, 32, generator=torch.Generator().manual_seed(seed)).bfloat16()
        groups, _ = int4.quantized(weight)
        wide = groups.levels.int() * groups.steps[..., None] + groups.bases[..., None]
        assert wide.min() >= -(1 << 15)
        assert wide.max() < 1 << 15


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.head = nn.Linear(64, 64, dtype=torch.bfloat16), nn.Linear(64, 96, dtype=torch.bfloat16)

    def get_output_embeddings(self):
        return self.head


def test_the_head_keeps_eight_bits(monkeypatch):
    monkeypatch.setattr("forerun.engine.quant.native_linear.serves", lambda: False)
    model = Model()
    weights = model.layer.weight, model.head.weight
    int4.quantize(model)
    assert isinstance(model.layer, IntegerLinear)
    assert torch.equal(model.layer.weight, int4.quantized(weights[0])[0].codes())
    assert torch.equal(model.head.weight, int8.quantized(weights[1])[0])
