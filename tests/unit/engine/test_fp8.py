"""W8A8 in FP8: the numbers of torch's own scaled product, and which layers are left alone."""

import pytest
import torch
from torch import nn
from torch.nn import functional
from transformers import AutoModelForCausalLM

from forerun.engine.quant import fp8
from forerun.engine.quant.e4m3 import E4M3, LARGEST, per_row, stored
from forerun.errors import ConfigError

ONE_ULP = 2.0**-7  # of bf16, relative: both sides round a float32 once, perhaps to two neighbours


def layer(out_features=48, in_features=32, bias=True, seed=0):
    torch.manual_seed(seed)
    linear = nn.Linear(in_features, out_features, bias, dtype=torch.bfloat16)
    nn.init.normal_(linear.weight, std=3.0)
    return linear


def test_codes_are_the_nearest_and_scales_make_the_largest_448():
    rows = torch.randn(7, 64, generator=torch.Generator().manual_seed(1)) * torch.logspace(-6, 6, 7)[:, None]
    codes, scales = per_row(rows)
    assert codes.float().abs().amax(-1).tolist() == [LARGEST] * 7
    assert ((codes.float() * scales - rows).abs() <= rows.abs() * 2**-4 + scales * 2**-10).all()


def test_quantising_twice_changes_nothing():
    rows = torch.randn(50, 64, generator=torch.Generator().manual_seed(2)).to(torch.bfloat16)
    codes, scales = per_row(rows)
    again, _ = per_row((codes.float() * scales).to(torch.bfloat16))
    assert torch.equal(codes.float(), again.float())


def test_a_row_of_zeros_and_numbers_beyond_the_range_stay_finite():
    assert per_row(torch.zeros(2, 16))[0].float().tolist() == [[0.0] * 16] * 2
    assert stored(torch.tensor([1e9, -449.0])).float().tolist() == [LARGEST, -LARGEST]


@pytest.mark.parametrize("num_rows", [1, 5, 17])
@pytest.mark.parametrize("bias", [False, True])
def test_the_product_is_that_of_the_reference_operators(num_rows, bias):
    linear = layer(bias=bias)
    rows = torch.randn(1, num_rows, 32, generator=torch.Generator().manual_seed(3)).to(torch.bfloat16)
    ours = fp8.Fp8Linear(linear)(rows)[0]
    a, a_scale = per_row(rows[0])
    b, b_scale = per_row(linear.weight.detach())
    for expected in (
        torch._scaled_mm(a, b.t(), a_scale, b_scale.t(), out_dtype=torch.bfloat16),
        functional.scaled_mm(
            a, b.t(), a_scale, functional.ScalingType.RowWise, b_scale.t(), functional.ScalingType.RowWise,
            output_dtype=torch.bfloat16,
        ),
    ):  # fmt: skip
        expected = expected + linear.bias if bias else expected
        torch.testing.assert_close(ours, expected.detach(), rtol=2 * ONE_ULP, atol=1e-2)


def test_another_scale_of_a_channel_would_be_seen():
    linear, rows = layer(), torch.randn(5, 32, generator=torch.Generator().manual_seed(3)).to(torch.bfloat16)
    quantised = fp8.Fp8Linear(linear)
    right = quantised(rows)
    quantised.scale = quantised.scale.roll(1, 1)
    assert (quantised(rows) - right).abs().max() > 0.5


def test_embedding_head_and_norms_stay(tiny_pair):
    module = AutoModelForCausalLM.from_pretrained(tiny_pair.target, dtype=torch.bfloat16)
    assert fp8.kept(module) == ["lm_head"]
    fp8.quantize(module)
    quantised = {name for name, child in module.named_modules() if isinstance(child, fp8.Fp8Linear)}
    assert len(quantised) == 2 * 7
    assert all("proj" in name for name in quantised)
    assert type(module.lm_head) is nn.Linear


def test_routers_and_sizes_that_no_kernel_takes_stay():
    class Mixture(nn.Module):
        def __init__(self):
            super().__init__()
            self.gate, self.odd, self.even = nn.Linear(32, 16), nn.Linear(32, 20), nn.Linear(32, 32)

        def get_output_embeddings(self):
            return None

    assert fp8.kept(Mixture()) == ["gate", "odd"]


def test_on_a_cpu_the_weights_are_codes_all_the_same():
    weight = fp8.Fp8Linear(layer()).weight
    assert weight.dtype == torch.float32
    assert torch.equal(weight, weight.to(E4M3).float())


def test_an_older_gpu_is_refused_with_the_way_out(monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (8, 0))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "A100")
    with pytest.raises(ConfigError, match=r"8\.9 \(Ada\) or newer, A100 has 8\.0; choose bf16"):
        fp8.check(torch.device("cuda"))
