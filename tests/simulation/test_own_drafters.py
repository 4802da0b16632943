"""The gateway's own drafters in virtual time: fast where the text repeats, free where it does not."""

import pytest

from tests.support.simulation import BAD, GOOD, World, never_repeating, skill, speed, uniform
from tests.support.virtual_time import run

START_S, WINDOW_S = 2.0, 5.0
NEVER_SLOWER = 0.96


def repeating(stream, place, period=60, edited=0.05):
    """A passage that comes again and again, each time with a few tokens changed: an edit, a summary."""
    changed = uniform(stream, place, "edited") < edited
    return 100_000 + place if changed else 1000 + place % period


def babble(stream, place):
    """A dozen words in no order: every place repeats another, and what follows is as good as anything."""
    return 1000 + int(uniform(stream, place) * 12)


def rate(load, k=None, own_drafter="auto", **world):
    return run(speed(World(settings={"own_drafter": own_drafter}, **world), load, k, START_S, WINDOW_S))


@pytest.mark.parametrize(("load", "gain"), [(1, 2.5), (8, 1.3)])
def test_a_text_that_repeats_is_fast_without_any_draft_service(load, gain):
    assert rate(load, text=repeating, with_draft=False) >= gain * rate(load, 0, text=repeating, with_draft=False)


@pytest.mark.parametrize("draft", [GOOD, BAD], ids=["good", "bad"])
def test_where_the_text_repeats_they_win_over_the_service(draft):
    worlds = {"text": repeating, "skill": skill(draft)}
    assert rate(1, **worlds) >= 1.3 * rate(1, own_drafter="off", **worlds)


@pytest.mark.parametrize("load", [1, 4, pytest.param(16, marks=pytest.mark.full)])
@pytest.mark.parametrize("text", [never_repeating, babble])
def test_where_it_does_not_they_cost_nothing(load, text):
    alone = rate(load, 0, text=text, with_draft=False)
    assert rate(load, text=text, with_draft=False) >= NEVER_SLOWER * alone
    for draft in (GOOD, BAD):
        worlds = {"text": text, "skill": skill(draft)}
        assert rate(load, **worlds) >= NEVER_SLOWER * rate(load, own_drafter="off", **worlds)


def test_control_one_that_believes_every_repetition_costs(monkeypatch):
    monkeypatch.setattr("gateway.acceptance.Acceptance.at", lambda *_: 0.9)
    worlds = {"text": babble, "with_draft": False}
    assert rate(1, **worlds) < NEVER_SLOWER * rate(1, 0, **worlds)
