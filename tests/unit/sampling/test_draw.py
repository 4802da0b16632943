"""Draws: their law, their edges, and that sparse laws are drawn in integers."""

import numpy as np
import pytest

from forerun.errors import SequenceFault
from forerun.sampling.draw import TOTAL_WEIGHT, draw, draw_sparse, one_hot, race, truncate
from forerun.sampling.noise import MatchNoise, derive_key
from forerun.types import SparseLaw
from tests.support.rule_cells import preimages

LARGEST_UNIFORM = 1 - 2.0**-53


def random_law(rng, size, power=4):
    p = rng.random(size) ** power
    p[rng.random(size) < 0.3] = 0
    p[rng.integers(size)] = 1.0
    return p / p.sum()


@pytest.mark.parametrize("size", [1, 5, 255, 257, 700])
def test_each_token_owns_a_share_of_the_uniforms_equal_to_its_probability(size):
    p = random_law(np.random.default_rng(size), size)
    shares = preimages(lambda u: draw(p, u), size)
    assert np.abs(shares - p).max() < 1e-12


def test_a_token_of_probability_zero_is_never_drawn_even_at_the_ends():
    rng = np.random.default_rng(3)
    for _ in range(300):
        p = random_law(rng, int(rng.integers(1, 600)), 30)
        assert p[draw(p, 0.0)] > 0
        assert p[draw(p, LARGEST_UNIFORM)] > 0


def test_a_law_without_mass_is_a_fault():
    with pytest.raises(SequenceFault):
        draw(np.zeros(5), 0.5)
    with pytest.raises(SequenceFault):
        race(np.zeros(5), np.arange(5, dtype=np.uint64))


def test_truncation_keeps_the_likeliest_tokens_with_weights_near_their_share():
    p = np.array([0.05, 0.4, 0.2, 0.3, 0.05])
    law = truncate(p, 3)
    assert law.ids.tolist() == [1, 2, 3]
    assert law.weights.sum() == TOTAL_WEIGHT
    assert np.abs(law.weights / TOTAL_WEIGHT - p[[1, 2, 3]] / 0.9).max() < 1 / TOTAL_WEIGHT


def test_truncation_drops_zero_weights_and_names_ids_of_a_trimmed_vocabulary():
    law = truncate(np.array([1e-9, 0.5, 0.5]), 3, np.array([70, 80, 90]))
    assert law.ids.tolist() == [80, 90]
    assert law.weights.tolist() == [TOTAL_WEIGHT // 2] * 2


def test_truncation_of_a_one_hot_law_is_one_id():
    law = truncate(one_hot(50, 17), 16)
    assert (law.ids.tolist(), law.weights.tolist()) == ([17], [TOTAL_WEIGHT])


def test_truncation_of_equal_tokens_keeps_the_lowest_ids():
    assert truncate(np.full(8, 1 / 8), 2).ids.tolist() == [0, 1]


def test_a_sparse_draw_gives_each_id_exactly_its_weight_of_the_uniforms():
    law = SparseLaw(np.array([9, 4, 6]), np.array([1, 3, 4]))
    drawn = [draw_sparse(law, i / 8) for i in range(8)]
    assert drawn == [9, 4, 4, 4, 6, 6, 6, 6]
    assert draw_sparse(law, LARGEST_UNIFORM) == 6


def test_a_sparse_draw_is_exact_for_weights_that_doubles_cannot_hold():
    law = SparseLaw(np.array([0, 1]), np.array([2**61 + 1, 2**61]))
    assert draw_sparse(law, 0.5) == 0
    assert draw_sparse(law, 0.5 + 2.0**-53) == 1


def test_a_race_is_the_argmin_of_the_unpruned_race():
    rng = np.random.default_rng(8)
    noise = MatchNoise(derive_key(1, 0, "match"))
    for position in range(500):
        p = random_law(rng, 60, 12)
        raw = noise.raw(position, 60)
        with np.errstate(divide="ignore"):
            times = -np.log1p(-(raw * 2.0**-64)) / p
        assert race(p, raw) == np.argmin(times)


def test_a_race_never_gives_an_impossible_token():
    extremes = np.array([0, 2**64 - 1, 2**64 - 1], dtype=np.uint64)
    assert race(np.array([0.0, 1.0, 0.0]), extremes) == 1
    assert race(np.array([0.0, 0.5, 0.5]), extremes) in (1, 2)
    assert race(np.array([0.0, 1.0, 0.0]), np.zeros(3, dtype=np.uint64)) == 1


def test_tokens_of_a_shared_race_agree_more_often_than_the_bound():
    """Gumbel coupling agrees with probability ≥ (1-TV)/(1+TV) (arXiv 2408.07978); false alarm below 1e-6 (5 sigma)."""
    rng = np.random.default_rng(4)
    p, q = random_law(rng, 20, 2), random_law(rng, 20, 2)
    noise = MatchNoise(derive_key(2, 0, "match"))
    draws = [noise.raw(i, 20) for i in range(4000)]
    agreement = np.mean([race(p, raw) == race(q, raw) for raw in draws])
    variation = np.abs(p - q).sum() / 2
    assert agreement > (1 - variation) / (1 + variation) - 5 * 0.5 / np.sqrt(4000)
