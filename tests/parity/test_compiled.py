"""The compiled model against the uncompiled one, step by step over the same ragged batches."""

import numpy as np
import pytest
import torch

from forerun.engine import compiled, torch_setup
from forerun.engine.compiled import Recipe
from forerun.engine.quant.int8 import LEVELS, quantized
from forerun.errors import ConfigError
from tests.parity.paged import Paged, load

_FULL = pytest.mark.full  # each takes most of a minute to compile
PRECISIONS = (pytest.param("bf16", marks=_FULL), "int8", pytest.param("int4", marks=_FULL))
MARGIN = 0.06  # root mean square, of the logits' standard deviation: activations in bf16 are rounded in another order


pytestmark = pytest.mark.skipif(not compiled.can_compile(), reason="no C++ compiler")


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module", params=PRECISIONS)
def both(request, cache, tiny_pair):
    """The same weights, compiled and as they are."""
    torch_setup.prepare(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FORERUN_CACHE", str(cache))
        fast = compiled.load(Recipe(tiny_pair.target, request.param, 1))
    return Paged(fast), Paged(load(tiny_pair.target, request.param))


def ids(count, seed):
    return np.random.default_rng(seed).integers(3, 60, count).tolist()


def same(fast, plain):
    for one, other in zip(fast, plain, strict=True):
        assert one.shape == other.shape
        assert one.dtype == np.float32
        assert distance(one, other) < MARGIN


def distance(one, other):
    return np.sqrt(np.square(one - other).mean()) / other.std()


def steps(paged, lens, due):
    """Prefills prompts of `lens`, then extends each by the number of rows that `due` names, several times."""
    seen = []
    sequences = [paged.open(ids(length, length), num_logits=1) for length in lens]
    seen += paged.run(*sequences)
    for turn, counts in enumerate(due):
        for sequence, count in zip(sequences, counts, strict=True):
            sequence.tokens += ids(count, 100 * turn + count)
            paged.table.demand(sequence, count)
        seen += paged.run(*sequences)
    return seen


@pytest.mark.parametrize(
    ("lens", "due"),
    [
        pytest.param([1], [[1], [1], [2]], id="one row"),
        pytest.param([37], [[5], [1], [9]], id="a proposal"),
        pytest.param([3, 50, 17, 90], [[1, 1, 1, 1], [5, 1, 3, 9], [2, 2, 2, 2]], id="ragged"),
        pytest.param([200, 33], [[1, 40]], id="prefill beside decoding"),
    ],
)
def test_a_compiled_step_gives_the_logits_of_an_uncompiled_one(both, lens, due):
    fast, plain = both
    same(steps(fast, lens, due), steps(plain, lens, due))


def test_the_margin_would_tell_one_wrong_token(both):
    """The control: one prompt token of 37 is another."""
    _, plain = both
    prompt = ids(37, 1)
    (right,), (wrong,) = (plain.run(plain.open([token, *prompt[1:]], num_logits=5)) for token in (5, 6))
    assert distance(wrong, right) > 3 * MARGIN


@pytest.mark.parametrize("deterministic", [False, True])
def test_a_row_of_a_proposal_is_bit_for_bit_what_it_is_alone(both, deterministic):
    """Up to 32 rows a step; in deterministic mode beside 40 others too (case 10)."""
    loaded = both[0].runner._model
    engine = Paged(loaded, num_blocks=256, deterministic=deterministic, backend="paged_native")
    prompt, drafted = ids(40, 1), ids(9, 2)
    alone, proposed = engine.open(prompt, num_logits=1), engine.open(prompt, num_logits=1)
    engine.run(alone)
    engine.run(proposed)
    others = [engine.open(ids(5 + n, n), num_logits=1) for n in range(40 if deterministic else 0)]
    proposed.tokens += drafted
    engine.table.demand(proposed, 9)
    rows = engine.run(proposed, *others)[0]
    for row, token in zip(rows, drafted, strict=True):
        alone.tokens.append(token)
        engine.table.demand(alone, 1)
        np.testing.assert_array_equal(engine.run(alone)[0][0], row)


def test_the_second_load_compiles_nothing(both, cache, request, tiny_pair, monkeypatch):
    monkeypatch.setenv("FORERUN_CACHE", str(cache))
    monkeypatch.setattr(compiled, "_compile_into", lambda *_: pytest.fail("compiled again"))
    loaded = compiled.load(Recipe(tiny_pair.target, request.node.callspec.params["both"], 1))
    assert loaded.head_size >= 64


def test_the_key_follows_weights_precision_and_threads(tiny_pair, tmp_path):
    recipe = Recipe(tiny_pair.target, "bf16", 1)
    others = [
        Recipe(tiny_pair.draft, "bf16", 1),
        Recipe(tiny_pair.target, "int8", 1),
        Recipe(tiny_pair.target, "int4", 1),
        Recipe(tiny_pair.target, "bf16", 2),
    ]
    assert len({recipe.key(), *(other.key() for other in others)}) == 5
    assert recipe.key() == Recipe(tiny_pair.target, "bf16", 1).key()


def test_what_cannot_be_compiled_is_a_config_error_that_names_the_way_out(tiny_pair, tmp_path, monkeypatch):
    monkeypatch.setenv("FORERUN_CACHE", str(tmp_path))
    (tmp_path / "compiled" / "unfinished-by-one-that-was-killed").mkdir(parents=True)
    with pytest.raises(ConfigError, match=r"--compile off.*unknown precision 'int3'"):
        compiled.load(Recipe(tiny_pair.target, "int3", 1))
    assert not any(path.is_dir() for path in (tmp_path / "compiled").iterdir())


def test_int8_weights_are_within_half_a_level_of_what_they_were():
    weight = torch.randn(48, 32, generator=torch.Generator().manual_seed(0)).bfloat16()
    levels, scale = quantized(weight)
    error = (levels.float() * scale.float()[:, None] - weight.float()).abs()
    limit = torch.where(levels.abs() == LEVELS, 1.0, 0.5001)  # the scale, rounded down, may cut the largest weight
    assert (error <= limit * scale.float()[:, None]).all()
