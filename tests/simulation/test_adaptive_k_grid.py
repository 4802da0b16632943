"""K chosen by the gateway against the best K that stays, over links, loads and drafts, in virtual time.

Every run is the gateway's own code over devices of stated speed whose steps vary by 30%. The first START_S seconds are
the allowance for learning the pair's times and the draft's skill; what is compared is the speed from there on.
"""

from statistics import fmean

import pytest

from forerun.cost.pace import Pace
from gateway.calibration import LoadCalibration
from tests.support.simulation import BAD, GOOD, World, changing, generate, skill, speed
from tests.support.virtual_time import run

START_S = 3.0
NEAR = 0.95
NEVER_SLOWER = 0.95
DRAFTS = {"good": GOOD, "bad": BAD}
ALL_K = (0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16)
FEW_K = (0, 1, 5, 8)
SPREAD = [(0, 1, "good"), (1, 1, "bad"), (20, 1, "good"), (5, 4, "good"), (20, 4, "bad"), (0, 16, "good")]
GRID = [(rtt_ms, load, draft) for rtt_ms in (0, 1, 5, 20) for load in (1, 4, 16) for draft in DRAFTS]


def over_best(point, every_k, window_s):
    """The adaptive speed as a multiple of the best K's; of a lone stream, whose luck is its own, over several texts."""
    rtt_ms, load, draft = point

    def measured(k, seed):
        world = World(skill=skill(DRAFTS[draft]), draft_rtt_s=rtt_ms / 1000, seed=seed)
        return run(speed(world, load, k, START_S, window_s))

    seeds = range(3 if load == 1 else 1)
    return fmean(measured(None, seed) / max(measured(k, seed) for k in every_k) for seed in seeds)


def window_s(point):
    """As long as a load of sixteen gives in the same number of tokens, within reason."""
    return {1: 8.0, 4: 5.0, 16: 3.0}[point[1]]


@pytest.mark.parametrize("point", SPREAD, ids=str)
def test_it_comes_near_the_best_k_that_stays(point):
    assert over_best(point, FEW_K, window_s(point)) >= NEAR


@pytest.mark.full
@pytest.mark.parametrize("point", GRID, ids=str)
def test_it_comes_near_the_best_k_everywhere(point):
    assert over_best(point, ALL_K, 8.0) >= NEAR


@pytest.mark.parametrize("point", [(1, 1, "bad"), (20, 4, "bad"), (0, 16, "good")], ids=str)
def test_control_a_policy_that_does_not_look_misses(point, monkeypatch):
    """One that always drafts 4, or 12 where 4 is about best, and is not held against going without."""
    k = 12 if point[2] == "good" else 4
    monkeypatch.setattr("gateway.speculation.best_pace", lambda *_: Pace(k, 4.0, 2.0))
    monkeypatch.setattr(LoadCalibration, "saw", lambda load, *_: setattr(load, "_window", 0))
    assert over_best(point, FEW_K, window_s(point)) < NEAR


@pytest.mark.parametrize(("before", "after"), [("good", "bad"), ("bad", "good")])
def test_it_follows_a_text_that_changes_midway(before, after):
    """Within a tenth of the best K of each half, the changes included."""
    half = 1500
    world = World(skill=changing(skill(DRAFTS[before]), skill(DRAFTS[after]), 20 + half))
    best_s = sum(
        min(run(generate(World(skill=skill(DRAFTS[draft])), half, k)).token_s for k in FEW_K)
        for draft in (before, after)
    ) / 2  # fmt: skip
    assert run(generate(world, 2 * half)).token_s <= best_s / 0.9


def test_it_lets_go_of_a_draft_that_becomes_slow():
    world = World(draft_slows=(START_S, 10.0))
    on, off = (run(speed(world, 1, k, START_S + 1.0, 6.0)) for k in (None, 0))
    assert on >= NEVER_SLOWER * off
