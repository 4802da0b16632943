"""Which outcomes a draft expects: by the laws at hand and by how verifications came out before."""

import pytest

from draft_service.confidence import Confidence
from draft_service.drawing import Guesses
from draft_service.odds import Odds
from draft_service.width import FIRST, Width

SURE, UNSURE = Guesses(1, 0.95, (2, 3, 4)), Guesses(5, 0.1, (6, 7, 8))


def test_a_cut_is_expected_where_the_draft_was_unsure_and_with_its_next_best_guess():
    cuts = Odds(Confidence()).cuts([SURE, UNSURE])
    assert (cuts[0].num_accepted, cuts[0].token) == (1, 6)
    assert {(cut.num_accepted, cut.token) for cut in cuts} == {(0, 2), (0, 3), (0, 4), (1, 6), (1, 7), (1, 8)}


def test_probabilities_are_a_law():
    odds = Odds(Confidence())
    for _ in range(50):
        odds.saw([SURE, UNSURE], 2, 1, 7)
    total = sum(cut.probability for cut in odds.cuts([SURE, UNSURE]))
    survival = odds.survival([SURE, UNSURE])
    total += sum(bonus.probability for bonus in odds.bonuses(2, survival, SURE))
    assert 0.5 < total <= 1


def test_what_came_out_before_is_expected_again():
    odds = Odds(Confidence())
    before = odds.cuts([UNSURE, UNSURE])[0]
    for _ in range(40):
        odds.saw([UNSURE, UNSURE], 2, 0, 8)
    after = odds.cuts([UNSURE, UNSURE])[0]
    assert before.token == 6 and (after.num_accepted, after.token) == (0, 8)


def test_all_accepted_is_an_outcome_whose_bonus_may_be_the_drafts_own_next_token():
    confidence = Confidence()
    odds = Odds(confidence)
    for _ in range(40):
        odds.saw([SURE, SURE], 2, 2, 9)
        confidence.saw(SURE.q, True)
    bonuses = odds.bonuses(2, odds.survival([SURE, SURE]), SURE)
    assert [bonus.token for bonus in bonuses] == [1, 2, 3, 4]
    assert all(bonus.num_accepted == 2 for bonus in bonuses)
    assert bonuses[0].probability > 0.5


def test_a_token_that_nobody_guessed_makes_all_guesses_less_likely():
    odds = Odds(Confidence())
    before = odds.cuts([UNSURE])[0].probability
    for _ in range(20):
        odds.saw([UNSURE], 1, 0, 60)
    assert odds.cuts([UNSURE])[0].probability < before / 2


def test_only_the_token_after_the_last_drafted_one_tells_how_good_the_favourite_is_there():
    odds = Odds(Confidence())
    before = odds.bonuses(1, 1.0, SURE)[0].probability
    odds.saw([SURE, SURE], 2, 1, 9)
    assert odds.bonuses(1, 1.0, SURE)[0].probability == before
    odds.saw([SURE, SURE], 1, 1, 9)
    assert odds.bonuses(1, 1.0, SURE)[0].probability < before


def test_there_are_as_many_branches_as_there_is_time_for():
    width = Width()
    assert width.within(100) == FIRST and width.within(3) == 3
    for _ in range(400):
        width.saw(16, in_time=width.within(16) <= 11)
    assert 9 <= width.within(16) <= 12
    for _ in range(100):
        width.saw(16, in_time=False)
    assert width.within(16) == 1


@pytest.mark.parametrize("num_asked", [4, 16])
def test_it_does_not_grow_beyond_what_is_asked_for(num_asked):
    width = Width()
    for _ in range(1000):
        width.saw(num_asked, in_time=True)
    assert width.within(100) <= max(num_asked + 1, FIRST)
