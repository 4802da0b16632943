"""Where products in bf16 are ours, and which layers."""

import pytest
import torch
from torch import nn

from forerun.engine import native_code
from forerun.engine.quant import bf16, native_linear
from forerun.engine.quant.native_linear import PackedLinear


@pytest.mark.parametrize(
    ("flags", "serves", "pays"),
    [
        ("flags : avx2 avx512f avx512_bf16 avx512_vnni", True, True),
        ("flags : avx2 avx512f avx512_bf16 amx_bf16 amx_tile amx_int8", True, False),
        ("flags : avx2 fma avx_vnni", True, False),
        ("flags : avx2 avx512f avx512_bf16 avx512_vnni", False, False),
    ],
)
def test_it_pays_where_bf16_is_multiplied_without_a_matrix_unit(flags, serves, pays, monkeypatch):
    monkeypatch.setattr(native_code, "cpu_flags", lambda: flags)
    monkeypatch.setattr(native_linear, "serves", lambda: serves)
    assert bf16.pays() == pays


def test_layers_that_the_kernel_takes_are_put_on_it():
    if not native_linear.serves():
        pytest.skip("no C++ compiler, or not x86-64")
    module = nn.Sequential(
        nn.Embedding(8, 4, dtype=torch.bfloat16),
        nn.Linear(64, 32, dtype=torch.bfloat16),
        nn.Linear(64, 32),
        nn.Linear(native_linear.MAX_DEPTH + 1, 1, dtype=torch.bfloat16),
    ).requires_grad_(False)
    before = list(module)
    bf16.pack(module)
    assert isinstance(module[1], PackedLinear)
    assert [module[i] is before[i] for i in (0, 2, 3)] == [True, True, True]
