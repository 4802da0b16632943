"""Which attention backend serves: the first in order that shows by one forward that it can."""

import pytest
import torch

from forerun.engine import attention
from forerun.engine.attention import choice, paged_native
from forerun.errors import ConfigError
from tests.unit.engine.test_build import built

CPU, CUDA = torch.device("cpu"), torch.device("cuda")
E4M3 = torch.float8_e4m3fn


def test_on_a_gpu_flash_attention_comes_first_and_gathered_blocks_last():
    assert choice.candidates("auto", CUDA, 128, torch.bfloat16, exact=False) == ["fa3", "varlen", "sdpa"]
    exact = ["fa3_exact", "varlen_exact", "paged_rowwise"]
    assert choice.candidates("auto", CUDA, 128, torch.bfloat16, exact=True) == exact


def test_on_a_cpu_the_native_kernel_serves_but_not_fp8():
    native = ["paged_native"] if paged_native.serves(64) else ["paged_cpu"]
    assert choice.candidates("auto", CPU, 64, torch.bfloat16, exact=False) == native
    assert choice.candidates("auto", CPU, 64, E4M3, exact=False) == ["paged_cpu"]
    assert choice.candidates("auto", CPU, 64, E4M3, exact=True) == ["paged_rowwise"]


@pytest.mark.parametrize(
    ("wanted", "exact"),
    [("fa3", "fa3_exact"), ("fa3_exact", "fa3_exact"), ("sdpa", "paged_rowwise"), ("paged_native", "paged_native")],
)
def test_where_every_bit_counts_a_backend_that_was_asked_for_becomes_an_exact_one(wanted, exact):
    assert choice.candidates(wanted, CPU, 64, torch.float32, exact=False) == [wanted]
    assert choice.candidates(wanted, CPU, 64, torch.float32, exact=True) == [exact]


def test_every_candidate_is_registered():
    for exact in (False, True):
        for device in (CPU, CUDA):
            assert set(choice.candidates("auto", device, 64, torch.bfloat16, exact)) <= set(attention.BACKENDS)


def test_what_cannot_run_here_is_passed_over_and_named(tiny_pair, monkeypatch, caplog):
    """Here neither GPU kernel runs: one is not installed, the other has no CPU form."""
    monkeypatch.setattr(choice, "candidates", lambda *facts: ["fa3", "varlen", "sdpa"])
    with caplog.at_level("INFO"):
        assert built(tiny_pair.target).backend == "sdpa fp32 cpu"
    assert "fa3 does not serve here" in caplog.text
    assert "varlen does not serve here" in caplog.text
    assert "the engine runs on sdpa fp32 cpu" in caplog.text


def test_a_backend_that_was_asked_for_and_cannot_run_is_an_error(tiny_pair):
    with pytest.raises(ConfigError, match="FlashAttention-3 cannot be loaded"):
        built(tiny_pair.target, attention_backend="fa3")


def test_an_fp8_cache_is_part_of_what_the_service_tells(tiny_pair):
    assert built(tiny_pair.target, kv_cache="fp8").backend == "paged_cpu fp32 cpu fp8-kv"
