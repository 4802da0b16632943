"""The product kernel against its definition in exact arithmetic, and its promise that bits depend on the row alone."""

import pytest
import torch
from torch import nn

from forerun.engine import native_code
from forerun.engine.quant import bf16, int4, int8, native_linear
from forerun.engine.quant.integer import IntegerLinear

PRECISIONS = pytest.mark.parametrize("precision", [int8, int4, bf16], ids=["int8", "int4", "bf16"])
INTEGERS = pytest.mark.parametrize("precision", [int8, int4], ids=["int8", "int4"])

SIZES = ((64, 32), (576, 192), (70, 100), (1537, 33), (1, 1))  # depth, columns: whole blocks and what is padded
ROWS = (1, 2, 5, 16, 17, 40, 150)
LESSER_MACHINES = (
    "-mno-amx-int8",
    "-march=x86-64-v3",
    pytest.param("-march=x86-64-v3 -mavxvnni", marks=pytest.mark.full),
    pytest.param("-march=x86-64", marks=pytest.mark.full),
)

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module", autouse=True)
def compiled():
    if not native_linear.serves():
        pytest.skip("no C++ compiler, or not x86-64")


def made(depth, columns, seed=0, bias=True):
    """A layer whose channels differ in size, and `max(ROWS)` rows that do."""
    generator = torch.Generator().manual_seed(seed)
    linear = nn.Linear(depth, columns, bias=bias, dtype=torch.bfloat16).requires_grad_(False)
    for parameter in linear.parameters():
        sizes = torch.rand(len(parameter), generator=generator).mul(6).exp2()
        numbers = torch.randn(parameter.shape, generator=generator)
        parameter.copy_(numbers * sizes.view(-1, *[1] * (parameter.ndim - 1)))
    sizes = torch.randn(max(ROWS), 1, generator=generator).mul(4).exp2()
    return linear, (torch.randn(max(ROWS), depth, generator=generator) * sizes).bfloat16()


def defined(plain, rows):
    """In float64: rows times the weights that the layer stands for."""
    bias = 0 if plain.bias is None else plain.bias.double()
    return rows.double() @ weights(plain).T + bias


def weights(plain):
    """`[out, in] float64`."""
    scale = plain.scale.double()[:, None] if isinstance(plain, IntegerLinear) else 1
    return plain.weight.double() * scale


def bound(plain, rows):
    """Of rounding: of a row to its levels, each with every weight, or of its sums; and of the result to bf16."""
    result = defined(plain, rows).abs() * 2.0**-8 + 1e-30
    if isinstance(plain, IntegerLinear):
        return rows.double().abs().amax(-1, keepdim=True) * 2.0**-15 * weights(plain).abs().sum(1) + result
    return rows.double().abs() @ weights(plain).abs().T * rows.shape[1] * 2.0**-24 + result


def without_kernel(precision, linear):
    return linear if precision is bf16 else precision.plain(linear)


@PRECISIONS
@pytest.mark.parametrize(("depth", "columns"), SIZES)
@pytest.mark.parametrize("bias", [False, True])
def test_it_multiplies_by_the_weights_that_it_stands_for(depth, columns, bias, precision):
    linear, rows = made(depth, columns, bias=bias)
    plain, native = without_kernel(precision, linear), precision.native(linear)
    for count in ROWS:
        output = native(rows[:count])
        assert output.shape == (count, columns)
        assert output.dtype == torch.bfloat16
        assert ((output.double() - defined(plain, rows[:count])).abs() <= bound(plain, rows[:count])).all()


@PRECISIONS
def test_what_is_lost_beside_bf16s_own_rounding_is_nothing_that_could_be_seen(precision):
    """Root mean square of all errors within 2% of those of the exact product, rounded to bf16 once."""
    linear, rows = made(576, 192)
    exact = defined(without_kernel(precision, linear), rows)
    ours = (precision.native(linear)(rows).double() - exact).square().mean()
    best = (exact.bfloat16().double() - exact).square().mean()
    assert ours <= 1.04 * best


def assert_bits_depend_on_the_row_alone(native, rows):
    whole = native(rows)
    for count in range(1, 41):
        assert torch.equal(native(rows[:count]), whole[:count])
    for row in range(0, len(rows), 7):
        assert torch.equal(native(rows[row : row + 1])[0], whole[row])
    for threads in (2, 3):
        torch.set_num_threads(threads)
        assert torch.equal(native(rows), whole)
        assert torch.equal(native(rows[:5]), whole[:5])
    torch.set_num_threads(1)


@PRECISIONS
@pytest.mark.parametrize(("depth", "columns"), SIZES)
def test_bits_do_not_depend_on_neighbours_or_threads(depth, columns, precision):
    linear, rows = made(depth, columns)
    assert_bits_depend_on_the_row_alone(precision.native(linear), rows)


@PRECISIONS
def test_a_scale_that_the_batch_shares_is_noticed(precision):
    """The control: rows in 8 bits under one scale for all of them."""
    linear, rows = made(576, 192)
    native = precision.native(linear)

    def careless(rows):
        return native((rows / rows.abs().amax() * 127).round()) * rows.abs().amax()

    with pytest.raises(AssertionError):
        assert_bits_depend_on_the_row_alone(careless, rows)


@INTEGERS
@pytest.mark.parametrize("flags", LESSER_MACHINES)
def test_code_for_lesser_machines_gives_the_same_bits(flags, monkeypatch, precision):
    cases = [made(depth, columns, seed) for seed, (depth, columns) in enumerate(SIZES)]
    natives = [precision.native(linear) for linear, _ in cases]
    best = [[native(rows[:count]) for count in ROWS] for native, (_, rows) in zip(natives, cases, strict=True)]
    if "vnni" in flags and "avx_vnni" not in native_code.cpu_flags():
        pytest.skip("no such instructions")
    monkeypatch.setattr(native_code, "FLAGS", (*native_code.FLAGS, *flags.split()))
    run = native_linear.load().forerun_packed_linear
    for native, (_, rows), outputs in zip(natives, cases, best, strict=True):
        for count, output in zip(ROWS, outputs, strict=True):
            assert torch.equal(native_linear.multiply(run, rows[:count], native.packed, native.columns), output)


def test_bf16_on_lesser_machines_is_as_near(monkeypatch):
    """In another order, so not bit by bit."""
    monkeypatch.setattr(native_code, "FLAGS", (*native_code.FLAGS, "-march=x86-64"))
    run = native_linear.load().forerun_packed_linear

    def on_lesser(rows):
        return native_linear.multiply(run, rows, native.packed, native.columns)

    for depth, columns in SIZES:
        linear, rows = made(depth, columns)
        native = bf16.native(linear)
        assert ((on_lesser(rows).double() - defined(linear, rows)).abs() <= bound(linear, rows)).all()
        assert_bits_depend_on_the_row_alone(on_lesser, rows)


@INTEGERS
def test_the_largest_sums_do_not_overflow(precision):
    """Every product 127 * 127, over the greatest depth: 2,114,060,288 < 2^31."""
    linear = nn.Linear(native_linear.MAX_DEPTH, 2, bias=False, dtype=torch.bfloat16).requires_grad_(False)
    linear.weight.fill_(1.0)
    rows = torch.ones(2, native_linear.MAX_DEPTH, dtype=torch.bfloat16)
    rows[1] = -1
    native = precision.native(linear)
    assert torch.equal(native(rows), torch.tensor([[1.0, 1.0], [-1.0, -1.0]]).bfloat16() * native_linear.MAX_DEPTH)


def test_a_layer_that_is_too_deep_stays_plain():
    module = nn.Sequential(nn.Linear(native_linear.MAX_DEPTH + 1, 1, bias=False, dtype=torch.bfloat16))
    int8.quantize(module)
    assert isinstance(module[0], IntegerLinear)


@PRECISIONS
@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_a_row_that_is_not_finite_is_alone_in_that(value, precision):
    linear, rows = made(576, 100)
    native = precision.native(linear)
    sound = native(rows[:20])
    rows[3, 570] = value
    output = native(rows[:20])
    assert not output[3].isfinite().any()
    rest = [row for row in range(20) if row != 3]
    assert torch.equal(output[rest], sound[rest])


@PRECISIONS
def test_rows_of_zeros_and_of_the_smallest_numbers_give_the_bias(precision):
    linear, rows = made(70, 33)
    rows = rows[:3].clone()
    rows[0] = 0
    rows[1] = torch.finfo(torch.bfloat16).smallest_normal / 4
    output = precision.native(linear)(rows)
    assert torch.equal(output[:2], linear.bias.expand(2, -1))


@PRECISIONS
def test_no_rows_give_no_rows_and_leading_dimensions_stay(precision):
    linear, rows = made(64, 32)
    native = precision.native(linear)
    assert native(rows[:0]).shape == (0, 32)
    assert torch.equal(native(rows[:6].view(1, 2, 3, 64)), native(rows[:6]).view(1, 2, 3, 32))
    strided = rows[:6].T.contiguous().T
    assert torch.equal(native(strided), native(rows[:6]))
