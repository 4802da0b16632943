"""Shadow proposals take no more than their share of the target's time: a draft may share its device."""

import pytest

from gateway.pair import NUM_FIRST_SHADOWS, NUM_FREE_SHADOWS, SHADOW_K, SHADOW_SHARE, PairRecord


@pytest.fixture
def pair():
    """One whose draft takes 3 ms a token and whose free shadows are spent."""
    pair = PairRecord()
    pair.costs.saw_proposal(1, 0.003, 0.003)
    for _ in range(NUM_FREE_SHADOWS):
        assert pair.pays_for_shadow(), "a new pair is looked at"
    return pair


def test_shadows_take_their_share_of_what_the_target_works(pair):
    num_asked = 0
    for _ in range(10_000):
        pair.saves_for_shadows(0.004)
        num_asked += pair.pays_for_shadow()
    assert num_asked * SHADOW_K * 0.003 == pytest.approx(SHADOW_SHARE * 10_000 * 0.004, rel=0.05)


def test_what_was_saved_for_long_is_not_spent_at_once(pair):
    pair.saves_for_shadows(1e6)
    assert sum(pair.pays_for_shadow() for _ in range(100)) == NUM_FIRST_SHADOWS
