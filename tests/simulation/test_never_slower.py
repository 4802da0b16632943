"""Speculation beside the same pair without it, on devices of their own and on shared cores (case 27)."""

import pytest

from gateway.calibration import LoadCalibration
from tests.support.simulation import BAD, GOOD, World, changing, skill, speed
from tests.support.virtual_time import run

NEVER_SLOWER = 0.95
MIDDLING = (0.6, 0.55, 0.5, 0.5)
DRAFTS = {"good": GOOD, "middling": MIDDLING, "bad": BAD}
START_S, WINDOW_S = 6.0, 12.0
CROWDED = {
    "step_s": 0.022,
    "flat_rows": 9,
    "row_s": 0.0009,
    "draft_step_s": 0.0028,
    "draft_row_s": 0.0004,
    "target_rtt_s": 0.003,
    "draft_rtt_s": 0.002,
    "noise": 0.2,
    "crowding": 2.0,
}


def over_off(load, draft, **world):
    """Tokens/s as a multiple of the same world's without a draft."""
    on, off = (run(speed(World(skill=skill(DRAFTS[draft]), **world), load, k, START_S, WINDOW_S)) for k in (None, 0))
    return on / off


@pytest.mark.parametrize("draft", DRAFTS)
@pytest.mark.parametrize("load", [1, 2, 8, *(pytest.param(load, marks=pytest.mark.full) for load in (4, 16, 32))])
def test_on_shared_cores_where_each_slows_the_other(load, draft):
    assert over_off(load, draft, **CROWDED) >= NEVER_SLOWER


@pytest.mark.parametrize("draft", ["good", "bad"])
@pytest.mark.parametrize("load", [1, 8, *(pytest.param(load, marks=pytest.mark.full) for load in (16, 32))])
def test_on_devices_of_their_own(load, draft):
    assert over_off(load, draft) >= NEVER_SLOWER


def test_what_the_draft_wins_on_shared_cores_is_not_given_away():
    assert over_off(1, "good", **CROWDED) > 2.0
    assert over_off(2, "good", **CROWDED) > 1.25


def test_a_draft_that_becomes_good_is_taken_up_again():
    """Two texts, hard ones up to a place where all turn easy."""
    half_s, place = 25.0, 1500
    world = World(skill=changing(skill(MIDDLING), skill(GOOD), place), **CROWDED)
    on, off = (run(speed(world, 2, k, half_s, half_s)) for k in (None, 0))
    assert on > 1.15 * off


@pytest.mark.parametrize(("load", "draft"), [(2, "middling"), (8, "good"), (16, "good")])
def test_control_the_cost_model_alone_does_not_see_it(load, draft, monkeypatch):
    monkeypatch.setattr(LoadCalibration, "saw", lambda load, *_: setattr(load, "_window", 0))
    assert over_off(load, draft, **CROWDED) < NEVER_SLOWER
