"""paged_native against attention in float64, and its promise that a row's bits depend on the row alone."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch

from forerun.engine import attention, native_code
from forerun.engine.attention import native_library, paged_native
from forerun.engine.attention.base import AttentionOptions, LayerCache, Segment
from forerun.errors import ConfigError

CPU = torch.device("cpu")
# float32: a few roundings of scores up to 40. bf16: outputs are averages of values of order 1, rounded to 8 bits, and
# so are weights.
TOLERANCES = {torch.float32: 1e-5, torch.bfloat16: 2e-2}
HEADS = {"1": (3, 3), "3": (9, 3), "8": (16, 2)}
CHUNK = 128  # of the kernel: what lies at its boundaries is tested

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module", autouse=True)
def compiled():
    if not paged_native.serves(64):
        pytest.skip("no C++ compiler")


class Batch:
    """Queries over a cache in scattered blocks, in which all that is no segment's own is NaN."""

    def __init__(self, seed, shapes, heads=(9, 3), head_dim=64, block_size=16, dtype=torch.float32):
        generator = torch.Generator().manual_seed(seed)
        self.block_size = block_size
        num_blocks = sum(math.ceil(context_len / block_size) for _, context_len in shapes) + 2
        size = (num_blocks, block_size, heads[1], head_dim)
        keys, values = (torch.randn(size, generator=generator).to(dtype) for _ in range(2))
        free = torch.randperm(num_blocks, generator=generator).tolist()
        self.segments, start = [], 0
        for query_len, context_len in shapes:
            table = [free.pop() for _ in range(math.ceil(context_len / block_size))]
            self.segments.append(Segment(start, query_len, context_len, table))
            start += query_len
            if used := context_len % block_size:
                keys[table[-1], used:] = values[table[-1], used:] = float("nan")
        keys[free] = values[free] = float("nan")
        self.query = (2 * torch.randn(start, heads[0], head_dim, generator=generator)).to(dtype)
        self.cache = LayerCache(keys, values)

    def attend(self, options, backend="paged_native", segments=None, query=None):
        engine = attention.create(backend)
        plan = engine.plan(segments or self.segments, self.block_size, CPU)
        return engine.attend(self.query if query is None else query, self.cache, plan, options)

    def piece(self, number, rows):
        """The output's rows and the inputs of some of a segment's rows (a slice of its query_len), all alone."""
        whole = self.segments[number]
        count = len(range(whole.query_len)[rows])
        first = whole.start + rows.start
        end = whole.context_len - whole.query_len + rows.stop
        alone = Segment(0, count, end, whole.block_table)
        return slice(first, first + count), {"segments": [alone], "query": self.query[first : first + count]}


def defined(batch, options):
    """The definition, in float64."""
    output = torch.zeros(batch.query.shape, dtype=torch.float64)
    for segment in batch.segments:
        rows = slice(segment.start, segment.start + segment.query_len)
        keys, values = (
            side[segment.block_table].flatten(0, 1)[: segment.context_len].double()
            for side in (batch.cache.keys, batch.cache.values)
        )
        fold = batch.query.shape[1] // keys.shape[1]
        keys, values = (side.repeat_interleave(fold, dim=1) for side in (keys, values))
        scores = torch.einsum("qhd,khd->hqk", batch.query[rows].double(), keys) * options.scale
        if options.softcap is not None:
            scores = options.softcap * torch.tanh(scores / options.softcap)
        queries = torch.arange(segment.context_len - segment.query_len, segment.context_len)[:, None]
        places = torch.arange(segment.context_len)
        hidden = places > queries
        if options.sliding_window is not None:
            hidden |= places <= queries - options.sliding_window
        scores = scores.masked_fill(hidden, float("-inf"))
        if options.sinks is not None:
            sinks = options.sinks.double()[:, None, None].expand(-1, segment.query_len, 1)
            scores = torch.cat([scores, sinks], dim=-1)
        weights = scores.softmax(dim=-1)[..., : segment.context_len]
        output[rows] = torch.einsum("hqk,khd->qhd", weights, values)
    return output


def options_for(features, num_heads, head_dim=64):
    every = features == "all"
    return AttentionOptions(
        head_dim**-0.5,
        sliding_window=37 if every or features == "window" else None,
        softcap=3.0 if every or features == "softcap" else None,
        sinks=torch.randn(num_heads, generator=torch.Generator().manual_seed(3))
        if every or features == "sinks"
        else None,
    )


def assert_defined(batch, options):
    ours = batch.attend(options)
    assert ours.dtype == batch.query.dtype
    tolerance = TOLERANCES[ours.dtype]
    np.testing.assert_allclose(ours.double().numpy(), defined(batch, options).numpy(), atol=tolerance, rtol=tolerance)


RAGGED = [(1, 1), (1, 200), (5, CHUNK), (9, CHUNK + 5), (40, 40), (3, 3), (150, 290), (1, CHUNK + 1)]


@pytest.mark.parametrize("dtype", list(TOLERANCES), ids=str)
@pytest.mark.parametrize("block_size", [8, 16, 32])
@pytest.mark.parametrize("group", list(HEADS))
@pytest.mark.parametrize("features", ["plain", "window", "softcap", "sinks", "all"])
def test_a_ragged_batch_equals_the_definition(features, group, block_size, dtype):
    batch = Batch(1, RAGGED, HEADS[group], block_size=block_size, dtype=dtype)
    assert_defined(batch, options_for(features, HEADS[group][0]))


def random_world(seed):
    """A batch of any shape that the backend takes, and options."""
    random = np.random.default_rng(seed)
    kv_heads = int(random.integers(1, 4))
    heads = (kv_heads * int(random.integers(1, 9)), kv_heads)
    head_dim = 8 * int(random.integers(1, 33))
    shapes = []
    for _ in range(random.integers(1, 6)):
        query_len = int(random.choice([1, 1, 2, 5, 9, 40, 150]))
        shapes.append((query_len, query_len + int(random.choice([0, random.integers(0, 64), random.integers(0, 700)]))))
    dtype = [torch.float32, torch.bfloat16][seed % 2]
    batch = Batch(seed, shapes, heads, head_dim, int(random.choice([1, 4, 8, 16, 24, 32])), dtype)
    options = AttentionOptions(
        head_dim**-0.5,
        int(random.choice([1, 5, 50, 300])) if random.random() < 0.4 else None,
        float(random.choice([1.0, 30.0])) if random.random() < 0.4 else None,
        torch.from_numpy(random.normal(size=heads[0])).to(dtype) if random.random() < 0.4 else None,
    )
    return batch, options


@pytest.mark.parametrize("seed", range(40))
def test_a_random_world_equals_the_definition(seed):
    assert_defined(*random_world(seed))


@pytest.mark.parametrize(
    "flags",
    [
        ("-march=x86-64-v3",),
        pytest.param(("-mno-amx-bf16",), marks=pytest.mark.full),
        pytest.param(("-mno-avx512bf16", "-mno-amx-bf16"), marks=pytest.mark.full),
        pytest.param(("-march=x86-64",), marks=pytest.mark.full),
    ],
    ids=" ".join,
)
def test_code_for_lesser_machines_equals_the_definition(flags, monkeypatch):
    monkeypatch.setattr(native_code, "FLAGS", (*native_code.FLAGS, *flags))
    for seed in range(20):
        assert_defined(*random_world(seed))
    assert_bits_depend_on_the_row_alone(*random_world(5))


def assert_bits_depend_on_the_row_alone(batch, options, backend="paged_native"):
    """Each segment alone, each row alone, and any cut in two give the bits of the whole batch."""
    whole = batch.attend(options, backend)
    for number, segment in enumerate(batch.segments):
        cuts = {0, segment.query_len, *range(1, min(segment.query_len, 10)), segment.query_len * 2 // 3}
        pieces = [slice(0, cut) for cut in cuts] + [slice(cut, segment.query_len) for cut in cuts]
        pieces += [slice(row, row + 1) for row in range(min(segment.query_len, 10))]
        for rows in pieces:
            if rows.start < rows.stop:
                place, inputs = batch.piece(number, rows)
                torch.testing.assert_close(batch.attend(options, backend, **inputs), whole[place], atol=0, rtol=0)


@pytest.mark.parametrize("dtype", list(TOLERANCES), ids=str)
@pytest.mark.parametrize("features", ["plain", "window", "all"])
def test_bits_do_not_depend_on_neighbours_or_query_len(features, dtype):
    batch = Batch(2, [(1, 200), (5, CHUNK + 2), (9, 700), (70, 300), (1, 1)], dtype=dtype)
    assert_bits_depend_on_the_row_alone(batch, options_for(features, 9))


def test_the_reference_is_not_bit_identical_so_that_test_has_power():
    batch = Batch(2, [(1, 200), (5, 130), (9, 700)], dtype=torch.bfloat16)
    with torch.no_grad():
        batch.cache.keys.nan_to_num_()
        batch.cache.values.nan_to_num_()
    with pytest.raises(AssertionError):
        assert_bits_depend_on_the_row_alone(batch, options_for("plain", 9), "paged_cpu")


@pytest.mark.parametrize("dtype", list(TOLERANCES), ids=str)
@pytest.mark.parametrize(
    "shapes", [[(1, 3000)], [(9, 3000)], [(200, 1500)], [(1, 300 + n) for n in range(16)]], ids=str
)
def test_bits_do_not_depend_on_the_number_of_threads(shapes, dtype):
    batch = Batch(3, shapes, dtype=dtype)
    outputs = []
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        outputs.append(batch.attend(options_for("plain", 9)))
    assert torch.equal(outputs[0], outputs[1])
    assert torch.equal(outputs[0], outputs[2])


def test_layers_with_and_without_a_window_share_a_plan():
    batch = Batch(5, [(1, 130), (3, 20), (1, 9)])
    engine = attention.create("paged_native")
    plan = engine.plan(batch.segments, batch.block_size, CPU)
    for window in (5, None, 150, 5):
        options = AttentionOptions(0.125, sliding_window=window)
        ours = engine.attend(batch.query, batch.cache, plan, options)
        np.testing.assert_allclose(ours.double().numpy(), defined(batch, options).numpy(), atol=1e-5)


def test_a_strided_query_is_attended_like_a_contiguous_one():
    batch = Batch(6, [(4, 12), (4, 9)])
    strided = batch.query.transpose(0, 1).contiguous().transpose(0, 1)
    options = AttentionOptions(0.125)
    assert torch.equal(batch.attend(options, query=strided), batch.attend(options))


def test_rows_of_no_segment_come_out_as_zeros():
    batch = Batch(7, [(2, 5)])
    padded = torch.cat([batch.query, torch.full((3, 9, 64), float("nan"))])
    output = batch.attend(AttentionOptions(0.125), query=padded)
    assert torch.equal(output[:2], batch.attend(AttentionOptions(0.125)))
    assert not output[2:].any()


@pytest.mark.parametrize("features", ["plain", "all"])
@pytest.mark.parametrize("dtype", list(TOLERANCES), ids=str)
def test_a_row_that_is_nan_stays_nan_alone(dtype, features):
    batch = Batch(8, [(5, 150), (3, 40)], dtype=dtype)
    options = options_for(features, 9)
    sound = batch.attend(options)
    query = batch.query.clone()
    query[2] = float("nan")
    output = batch.attend(options, query=query)
    assert output[2].isnan().all()
    rest = [0, 1, *range(3, 8)]
    assert torch.equal(output[rest], sound[rest])


@pytest.mark.parametrize(
    ("query", "keys", "says"),
    [
        (torch.zeros(1, 2, 16, dtype=torch.float16), torch.zeros(1, 4, 1, 16, dtype=torch.float16), "float16"),
        (torch.zeros(1, 2, 16), torch.zeros(1, 4, 1, 16, dtype=torch.bfloat16), "bfloat16"),
        (torch.zeros(1, 2, 12), torch.zeros(1, 4, 1, 12), "not of 12"),
        (torch.zeros(1, 2, 264), torch.zeros(1, 4, 1, 264), "not of 264"),
        (torch.zeros(1, 2, 16), torch.zeros(1, 1, 4, 16).transpose(1, 2), "contiguous"),
    ],
)
def test_what_the_kernel_does_not_read_is_refused(query, keys, says):
    engine = attention.create("paged_native")
    plan = engine.plan([Segment(0, 1, 1, [0])], 4, CPU)
    if says == "contiguous":
        keys = torch.zeros(1, 2, 4, 16).transpose(1, 2)
    with pytest.raises(ConfigError, match=says):
        engine.attend(query, LayerCache(keys, keys), plan, AttentionOptions(1.0))


class TestCompilation:
    """Where the kernel comes from."""

    @pytest.fixture(autouse=True)
    def own_cache(self, tmp_path, monkeypatch):
        monkeypatch.setenv("FORERUN_CACHE", str(tmp_path / "cache"))

    def compiler(self, tmp_path, script):
        path = tmp_path / "compiler"
        path.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/calls\n{script}\n')
        path.chmod(0o755)
        return str(path)

    def test_without_a_compiler_it_says_what_to_install(self, monkeypatch, tmp_path):
        monkeypatch.setenv("PATH", str(tmp_path))
        monkeypatch.delenv("CXX", raising=False)
        with pytest.raises(ConfigError, match=r"install g\+\+ or choose --attention paged_cpu"):
            attention.create("paged_native")
        assert not paged_native.serves(64)

    def test_a_size_of_heads_that_it_does_not_take_is_not_served(self):
        assert [paged_native.serves(head_dim) for head_dim in (12, 264, 256, 8)] == [False, False, True, True]

    def test_a_compiler_that_fails_is_quoted(self, monkeypatch, tmp_path):
        monkeypatch.setenv("CXX", self.compiler(tmp_path, "echo 'vectors.h: error: no such thing' >&2; exit 1"))
        with pytest.raises(ConfigError, match="error: no such thing"):
            attention.create("paged_native")
        assert [path.suffix for path in (tmp_path / "cache" / "native").iterdir()] == [".lock"]

    def test_it_is_compiled_once_for_a_compiler(self, monkeypatch, tmp_path):
        real = native_code.find_compiler({})
        monkeypatch.setenv("CXX", self.compiler(tmp_path, f'exec {real} "$@"'))
        for _ in range(2):
            attention.create("paged_native")
        calls = Path(tmp_path / "calls").read_text().splitlines()
        assert ["-o" in call for call in calls] == [False, True, False]

    def test_a_folder_that_others_may_write_is_refused(self, tmp_path):
        (tmp_path / "cache" / "native").mkdir(parents=True)
        (tmp_path / "cache" / "native").chmod(0o777)
        with pytest.raises(ConfigError, match="others may write it"):
            attention.create("paged_native")


def test_it_runs_in_the_openmp_runtime_of_torch():
    torch.set_num_threads(2)
    before = list(native_library._openmp_runtimes())
    library = native_library.load()
    Batch(9, [(200, 1500)]).attend(AttentionOptions(0.125))
    assert library.parallel is not None
    assert list(native_library._openmp_runtimes()) == before
    assert sum("torch" in path for path in before) == len(before) == 1
