"""The keyed noise: its golden vectors (docs/noise.md), random access, and the independence of keys and lanes."""

import hashlib
import re
from pathlib import Path

import numpy as np
import pytest

from forerun.sampling.noise import DraftNoise, KeyedNoise, Lane, MatchNoise, TargetNoise, derive_key

PAGE = (Path(__file__).parents[3] / "docs" / "noise.md").read_text(encoding="utf-8")
MASK = 2**64 - 1


def philox4x64(counter, key):
    """Philox4x64-10 as published, in plain integers."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(10):
        a, b = 0xD2E7470EE14C6C93 * c0, 0xCA5A826395121157 * c2
        c0, c1, c2, c3 = (b >> 64) ^ c1 ^ k0, b & MASK, (a >> 64) ^ c3 ^ k1, a & MASK
        k0, k1 = (k0 + 0x9E3779B97F4A7C15) & MASK, (k1 + 0xBB67AE8584CAA73B) & MASK
    return c0, c1, c2, c3


def hexes(values):
    return " ".join(f"{int(value):016x}" for value in values)


def test_the_reference_philox_gives_the_published_vector():
    assert hexes(philox4x64((0, 0, 0, 0), (0, 0))) in PAGE


def test_every_key_in_the_document_is_the_derived_one():
    rows = re.findall(r"\| (0|42|2\^64 - 1) \| (\d) \| (draft|target|match) \| `([0-9a-f]{32})`", PAGE)
    assert len(rows) == 7
    for seed, choice, purpose, key in rows:
        number = MASK if "^" in seed else int(seed)
        assert derive_key(number, int(choice), purpose).hex() == key


def test_a_key_is_the_documented_hash():
    packed = b"forerun/v1" + (42).to_bytes(8, "little") + (1).to_bytes(4, "little") + b"draft"
    assert derive_key(42, 1, "draft") == hashlib.sha256(packed).digest()[:16]


def test_the_raw_outputs_in_the_document_are_the_generators():
    noise = KeyedNoise(bytes(range(16)))
    for position, base_len, lane in [(0, 0, 0), (7, 5, 2)]:
        assert f"| {position} | {base_len} | {lane} | `{hexes(noise.raw(5, position, base_len, lane))}`" in PAGE


def test_the_uniforms_and_match_noise_in_the_document_are_the_generators():
    noise = TargetNoise(42, 1)
    uniforms = (noise.draft(7, 5), noise.acceptance(7, 5), noise.target(7, 5))
    assert ", ".join(f"`{u!r}`" for u in uniforms) in PAGE
    assert hexes(MatchNoise(derive_key(42, 1, "match")).raw(7, 6)) in PAGE


@pytest.mark.parametrize("place", [(0, 0, 0), (3, 2, 1), (2**40, 2**33, 2)])
def test_outputs_follow_the_documented_formula(place):
    key = derive_key(7, 0, "target")
    words = tuple(int.from_bytes(key[i : i + 8], "little") for i in (0, 8))
    blocks = [philox4x64((1 + n, *place), words) for n in range(3)]
    assert KeyedNoise(key).raw(11, *place).tolist() == [word for block in blocks for word in block][:11]


def test_access_is_random_whatever_was_read_before():
    noise, fresh = KeyedNoise(bytes(16)), KeyedNoise(bytes(16))
    noise.raw(1001, 5)
    noise.uniform(9, 2, Lane.TARGET)
    assert noise.uniform(4, 1, Lane.ACCEPTANCE) == fresh.uniform(4, 1, Lane.ACCEPTANCE)
    assert noise.raw(7, 5).tolist() == fresh.raw(1001, 5)[:7].tolist()


def test_the_draft_key_alone_gives_the_draft_lane():
    assert DraftNoise(derive_key(5, 2, "draft")).draft(11, 8) == TargetNoise(5, 2).draft(11, 8)


def test_a_uniform_is_a_multiple_of_two_to_the_minus_53_below_one():
    noise = KeyedNoise(bytes(16))
    uniforms = [noise.uniform(i, 0, Lane.DRAFT) for i in range(200)]
    assert all(0 <= u < 1 and u * 2**53 == int(u * 2**53) for u in uniforms)


def test_seeds_choices_lanes_positions_and_base_lens_all_give_other_numbers():
    """Case 30."""
    seen = set()
    for seed, choice in [(0, 0), (0, 1), (1, 0)]:
        noise = TargetNoise(seed, choice)
        for position, base_len in [(3, 2), (3, 3), (4, 2)]:
            for lane in (noise.draft, noise.acceptance, noise.target):
                seen.add(lane(position, base_len))
    assert len(seen) == 27


def test_the_three_lanes_are_uncorrelated():
    """False alarm: each |r| sqrt(n) is near N(0, 1) and may reach 5; 3 pairs, 2e-6 in all. Case 30."""
    noise = TargetNoise(11, 0)
    lanes = np.array([[f(i, i // 5) for i in range(4000)] for f in (noise.draft, noise.acceptance, noise.target)])
    correlations = np.corrcoef(lanes)[np.triu_indices(3, 1)]
    assert np.all(np.abs(correlations) * np.sqrt(4000) < 5)


def test_a_key_of_another_length_is_refused():
    with pytest.raises(ValueError, match="16 bytes"):
        KeyedNoise(b"short")
