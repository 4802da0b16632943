"""What the GPU backends hand to their kernels: by the kernels' own contract it must give what paged_cpu gives."""

import inspect

import pytest
import torch

from forerun.engine import attention
from forerun.engine.attention.base import AttentionOptions, LayerCache, Segment
from forerun.engine.attention.fa3 import Fa3, Fa3Exact
from forerun.engine.attention.ragged import EXACT_QUERY_LEN, plan_ragged
from forerun.engine.attention.varlen import Varlen, VarlenExact
from forerun.engine.quant.e4m3 import E4M3, stored
from forerun.errors import ConfigError
from tests.parity.test_paged_attention import BLOCK_SIZE, SCALE, random_batch
from tests.support import flash_reference

CPU = torch.device("cpu")
TOLERANCE = 1e-5  # float32
FP8_TOLERANCE = 2e-2  # outputs of order 1 in bf16, of the same codes
HEADS = [(4, 4), (6, 2), (8, 1)]
RAGGED = [(1, 30), (5, 21), (17, 17), (1, 1), (9, 40), (3, 8)]
SHAPES = {
    "prefill": [(21, 21), (7, 7)],
    "chunk": [(8, 24)],
    "decode": [(1, 30), (1, 1), (1, 4), (1, 5)],
    "verify": [(5, 33), (5, 5), (3, 12), (1, 16)],
    "ragged": RAGGED,
}


def spy(kernel, calls):
    def called(*arguments, **named):
        calls.append(named)
        return kernel(*arguments, **named)

    called.__signature__ = inspect.signature(kernel)
    return called


def backends(calls=None):
    calls = [] if calls is None else calls
    flash = spy(flash_reference.flash_attn_with_kvcache, calls)
    varlen = spy(flash_reference.varlen_attn, calls)
    return {
        "fa3": Fa3(flash),
        "fa3_exact": Fa3Exact(flash),
        "varlen": Varlen(varlen, is_paged=False),
        "varlen paged": Varlen(varlen, is_paged=True),
        "varlen_exact": VarlenExact(varlen, is_paged=True),
        "sdpa": attention.create("sdpa"),
    }


NAMES = list(backends())


def attended(backend, query, cache, segments, options):
    plan = backend.plan(segments, BLOCK_SIZE, CPU)
    return backend.attend(query, cache, plan, options)


def reference(query, cache, segments, options):
    return attended(attention.create("paged_cpu"), query, cache, segments, options)


@pytest.mark.parametrize("shapes", list(SHAPES))
@pytest.mark.parametrize("heads", HEADS, ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_every_kind_of_step_equals_paged_cpu(name, heads, shapes):
    query, cache, segments = random_batch(1, SHAPES[shapes], *heads, torch.float32)
    for window in (None, 1, 7):
        options = AttentionOptions(SCALE, sliding_window=window)
        ours = attended(backends()[name], query, cache, segments, options)
        torch.testing.assert_close(ours, reference(query, cache, segments, options), atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize("name", ["fa3", "fa3_exact", "sdpa"])
def test_a_softcap_is_honoured(name):
    query, cache, segments = random_batch(2, RAGGED, 4, 2, torch.float32)
    options = AttentionOptions(SCALE, softcap=3.0)
    ours = attended(backends()[name], query, cache, segments, options)
    torch.testing.assert_close(ours, reference(query, cache, segments, options), atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("fa3", {"sinks": torch.zeros(4)}),
        ("varlen", {"sinks": torch.zeros(4)}),
        ("varlen", {"softcap": 3.0}),
    ],
)
def test_what_a_kernel_lacks_is_refused_with_the_way_out(name, options):
    query, cache, segments = random_batch(3, [(1, 5)], 4, 2, torch.float32)
    with pytest.raises(ConfigError, match="--attention sdpa"):
        attended(backends()[name], query, cache, segments, AttentionOptions(SCALE, **options))


def quantised(cache, keys_scale, values_scale):
    """The cache in FP8, unused blocks cleared, and the same numbers in bf16."""
    keys, values = cache.keys.float().nan_to_num(), cache.values.float().nan_to_num()
    fp8 = LayerCache(
        stored(keys / keys_scale[:, None]), stored(values / values_scale[:, None]), keys_scale, values_scale
    )
    same = LayerCache(fp8.keys.float() * keys_scale[:, None], fp8.values.float() * values_scale[:, None])
    return fp8, same


@pytest.mark.parametrize("name", ["fa3", "fa3_exact", "varlen", "sdpa"])
def test_an_fp8_cache_gives_what_its_numbers_give(name):
    query, cache, segments = random_batch(4, RAGGED, 6, 2, torch.bfloat16)
    query = stored(query.float()).to(torch.bfloat16)  # what FlashAttention-3 makes of it
    fp8, same = quantised(cache, torch.tensor([0.011, 0.5]), torch.tensor([0.02, 0.3]))
    options = AttentionOptions(SCALE)
    ours = attended(backends()[name], query, fp8, segments, options)
    assert ours.dtype == torch.bfloat16
    expected = reference(query.float(), same, segments, options)
    torch.testing.assert_close(ours.float(), expected, atol=FP8_TOLERANCE, rtol=1e-2)


def test_swapped_scales_would_be_seen():
    query, cache, segments = random_batch(4, RAGGED, 6, 2, torch.bfloat16)
    query = stored(query.float()).to(torch.bfloat16)
    fp8, same = quantised(cache, torch.tensor([0.011, 0.5]), torch.tensor([0.02, 0.3]))
    swapped = LayerCache(fp8.keys, fp8.values, fp8.value_scale, fp8.key_scale)
    ours = attended(backends()["fa3"], query, swapped, segments, AttentionOptions(SCALE))
    expected = reference(query.float(), same, segments, AttentionOptions(SCALE))
    assert (ours.float() - expected).abs().max() > 5 * FP8_TOLERANCE


def test_without_scales_the_kernel_is_told_ones():
    calls = []
    query, cache, segments = random_batch(4, [(2, 9)], 4, 2, torch.bfloat16)
    fp8 = LayerCache(*(stored(side.float().nan_to_num()) for side in (cache.keys, cache.values)))
    attended(backends(calls)["fa3"], query, fp8, segments, AttentionOptions(SCALE))
    assert all(torch.equal(calls[0][f"{side}_descale"], torch.ones(1, 2)) for side in "qkv")
    assert calls[0]["k_cache"].dtype == E4M3


@pytest.mark.parametrize("name", ["fa3_exact", "varlen_exact"])
def test_exact_backends_name_the_same_kernel_for_every_query_length(name):
    calls = []
    backend = backends(calls)[name]
    for shapes in ([(1, 30)], [(9, 30)], [(16, 16)]):
        query, cache, segments = random_batch(5, shapes, 4, 2, torch.float32)
        attended(backend, query, cache, segments, AttentionOptions(SCALE))
    assert all(call["num_splits"] == 1 for call in calls)
    if name == "fa3_exact":
        assert {call["max_seqlen_q"] for call in calls} == {EXACT_QUERY_LEN}


def test_the_table_is_filled_up_with_a_sequences_own_last_block():
    plan = plan_ragged([Segment(0, 2, 9, [7, 3, 5]), Segment(2, 1, 4, [2, 9])], BLOCK_SIZE, CPU)
    assert plan.cu_seqlens_q.tolist() == [0, 2, 3]
    assert plan.cache_seqlens.tolist() == [9, 4]
    assert plan.page_table.tolist() == [[7, 3, 5], [2, 2, 2]]
    assert (plan.max_query_len, plan.max_context_len, plan.num_keys) == (2, 9, 13)


@pytest.mark.parametrize("name", ["fa3", "fa3_exact"])
def test_without_the_library_the_error_says_so(name):
    with pytest.raises(ConfigError, match="FlashAttention-3 cannot be loaded"):
        attention.create(name)
