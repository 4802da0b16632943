"""Drafting ahead of the verdict in virtual time: what it brings on a device of its own, and where it is off."""

import pytest

from tests.support.simulated_ahead import AheadWorld, token_s
from tests.support.virtual_time import run

K, NUM_TOKENS = 4, 600
DEVICES = {"step_s": 0.025, "flat_rows": 8, "draft_step_s": 0.0028, "noise": 0.1, "jitter_s": 0.0002}


def measured(mode, num_tokens=NUM_TOKENS, k=K, num_choices=1, **world):
    settings = {"ahead": mode}
    return run(token_s(AheadWorld(**DEVICES, settings=settings, **world), num_tokens, k, num_choices))


@pytest.mark.parametrize(("delay_s", "least"), [(0.0, 1.15), (0.002, 1.2), (0.005, 1.3)])
def test_a_hit_saves_the_drafts_steps_and_its_round_trip(delay_s, least):
    """Within 4% of T + W over T + (1 - h) W, W being what a round waits for its draft."""
    off, *_ = measured("off", draft_rtt_s=2 * delay_s)
    on, _, hit_rate = measured("on", draft_rtt_s=2 * delay_s)
    wait_s = K * DEVICES["draft_step_s"] + 2 * delay_s
    target_s = DEVICES["step_s"] + 0.0006
    assert hit_rate == pytest.approx(0.7, abs=0.1)
    assert off / on == pytest.approx((target_s + wait_s) / (target_s + (1 - hit_rate) * wait_s), rel=0.04)
    assert off / on >= least


@pytest.mark.parametrize("delay_s", [0.0, 0.005])
def test_auto_finds_that_it_pays(delay_s):
    on, *_ = measured("on", draft_rtt_s=2 * delay_s)
    auto, *_ = measured("auto", num_choices=2, draft_rtt_s=2 * delay_s)
    assert auto <= 1.03 * on


@pytest.mark.parametrize(
    "world", [{"slowdown": 1.6}, {"slowdown": 1.3, "foresight": 0.3}, {"slowdown": 1.05, "foresight": 0.0}], ids=str
)
def test_auto_leaves_it_where_devices_are_shared_or_nothing_is_foreseen(world):
    """In the long run; the first trial of a pair costs sixteen slow rounds."""
    off, auto = (measured(mode, num_choices=2, num_tokens=1500, **world)[0] for mode in ("off", "auto"))
    assert auto <= 1.02 * off


def test_with_k_left_to_the_gateway_it_is_no_slower_than_the_best_loop_without():
    """Waits that are mostly saved let K grow."""
    off, *_ = measured("off", k=None, num_choices=2, draft_rtt_s=0.010)
    on, _, hit_rate = measured("on", k=None, num_choices=2, draft_rtt_s=0.010)
    assert hit_rate > 0.5
    assert off / on > 1.15
