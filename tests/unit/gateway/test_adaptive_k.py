"""The gateway's own loop in virtual time, against peers of a stated speed and acceptance: K follows what pays."""

import pytest

from tests.support.simulation import World, generate, skill
from tests.support.virtual_time import run

AS_FAST = 0.98


def world(acceptance=0.8, draft_s=0.002, row_s=0.0001, draft_link_s=0.0001, target_link_s=0.0001):
    """Steps of 12 ms that do not vary; links one way."""
    return World(
        flat_rows=1, row_s=row_s, draft_step_s=draft_s, draft_rtt_s=2 * draft_link_s, target_rtt_s=2 * target_link_s,
        skill=skill((acceptance,)), noise=0.0, jitter_s=0.0,
    )  # fmt: skip


def gain(num_choices=1, num_tokens=1000, k=None, **peers):
    """Tokens/s as a multiple of plain decoding's, and the last choice's stats."""
    plain = run(generate(world(**peers), num_tokens, k=0))
    outcome = run(generate(world(**peers), num_tokens, k, num_choices))
    return plain.token_s / outcome.token_s, outcome.stats


@pytest.mark.parametrize("acceptance", [0.0, 0.3, 0.6, 0.89, 1.0])
@pytest.mark.parametrize("draft_link_s", [0.0001, 0.001, 0.005, 0.01, 0.05, 0.2])
def test_no_delay_on_the_drafts_link_makes_it_slower_than_plain_case_32(draft_link_s, acceptance):
    first, _ = gain(draft_link_s=draft_link_s, acceptance=acceptance)
    later, _ = gain(num_choices=3, draft_link_s=draft_link_s, acceptance=acceptance)
    assert min(first, later) >= AS_FAST


@pytest.mark.parametrize(
    "peers",
    [
        {"acceptance": 0.0},
        {"acceptance": 0.05},
        {"acceptance": 0.9, "draft_s": 0.012},
        {"acceptance": 0.9, "row_s": 0.012},
        {"acceptance": 1.0, "draft_link_s": 0.1},
    ],
)
def test_k_falls_to_0_for_a_draft_that_does_not_pay(peers):
    speed, stats = gain(num_choices=2, **peers)
    assert speed >= AS_FAST
    assert stats.num_drafts <= 12  # trials


@pytest.mark.parametrize(
    "peers",
    [
        {},
        {"acceptance": 0.95},
        {"acceptance": 0.5},
        {"acceptance": 0.89, "draft_link_s": 0.005},
        {"acceptance": 0.9, "row_s": 0.003},
    ],
)
def test_for_a_good_draft_auto_comes_near_the_best_fixed_k(peers):
    best = max(gain(k=k, **peers)[0] for k in (1, 2, 3, 4, 6, 8))
    speed, stats = gain(num_choices=3, **peers)
    assert speed >= 0.93 * best
    assert stats.num_drafts > 100


def test_with_a_slow_link_to_the_target_grants_hide_the_round_trip():
    speed, _ = gain(target_link_s=0.01, acceptance=0.1)
    assert speed >= AS_FAST


@pytest.mark.parametrize("acceptance", [0.1, 0.6, 0.9])
@pytest.mark.parametrize("target_link_s", [0.001, 0.005, 0.02, 0.05, 0.1])
def test_with_any_link_to_the_target_a_pair_is_as_fast_as_its_target_beside_the_gateway(target_link_s, acceptance):
    """From the second answer on, trials included: the grant then covers what the target gives while a renewal is
    under way.
    """
    plain = run(generate(world(), 400, k=0))
    far = run(generate(world(target_link_s=target_link_s, acceptance=acceptance), 400, num_choices=6))
    first_trip_s = 2 * target_link_s
    assert plain.token_s * 400 / (far.later_token_s * 400 - first_trip_s) >= 0.95


def test_a_fixed_k_is_kept_to_however_bad():
    _, stats = gain(k=4, num_tokens=200, acceptance=0.0)
    assert stats.num_draft_tokens / stats.num_drafts > 3.9
