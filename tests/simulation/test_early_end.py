"""A draft that knows where it is unsure ends its proposals there, in virtual time."""

from statistics import fmean

import pytest

from tests.support.simulated_ahead import AheadWorld, token_s
from tests.support.simulation import World, never_ends_early, speed, uniform
from tests.support.virtual_time import run

SURE, UNSURE, SHARE_OF_SURE = 0.95, 0.15, 0.6
WHERE = {"shared": {"draft_step_s": 0.0028}, "split": {"draft_rtt_s": 0.005}}
GAIN, SAME = 1.1, 1.04


def skill(stream, place, index):
    """Some of a text is easy, and easy places lie together."""
    return SURE if uniform("ease", stream, place // 3) < SHARE_OF_SURE else UNSURE


def outlook(survival, num_tokens):
    return survival * (SHARE_OF_SURE * SURE + (1 - SHARE_OF_SURE) * UNSURE)


def tokens_s(load, k=None, outlook=outlook, **world):
    worlds = [World(skill=skill, outlook=outlook, seed=seed, **world) for seed in range(2)]
    return fmean(run(speed(each, load, k, 3.0, 5.0)) for each in worlds)


@pytest.mark.parametrize("where", WHERE)
def test_it_beats_the_best_length_that_stays(where):
    """And the control: a draft that does not know gains nothing by being allowed to end early."""
    best = max(tokens_s(1, k, **WHERE[where]) for k in (1, 2, 3, 4, 6))
    assert tokens_s(1, **WHERE[where]) > GAIN * best
    assert tokens_s(1, outlook=never_ends_early, **WHERE[where]) < SAME * best


@pytest.mark.parametrize("where", WHERE)
def test_it_costs_nothing_at_load(where):
    assert tokens_s(4, **WHERE[where]) > 0.95 * tokens_s(4, outlook=never_ends_early, **WHERE[where])


def test_drafting_ahead_is_found_to_pay_as_before():
    """Its rounds are as long as those without it: branches end early, too."""

    def seconds(mode):
        world = AheadWorld(skill=skill, outlook=outlook, draft_rtt_s=0.010, step_s=0.025, settings={"ahead": mode})
        return run(token_s(world, 1200, None, num_choices=2))[0]

    off, on, auto = (seconds(mode) for mode in ("off", "on", "auto"))
    assert off / on > 1.15
    assert auto < 1.03 * on
