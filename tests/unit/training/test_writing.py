"""A text ends where its last turn does, and remembers which of its tokens the target wrote under a kept law."""

import numpy as np
import pytest

from forerun.training.opening import Opening, Turn
from forerun.training.writing import Writing, goes_round

END = 2
LAW = (np.array([7, 8], np.int64), np.array([0.5, 0.25], np.float16))


def writing(turns, prompt=(10, 11), max_len=100):
    return Writing(3, Opening(prompt, tuple(turns)), frozenset([END]), max_len, np.random.default_rng(0))


def fed(text, *tokens):
    """Whether it goes on after each of the tokens."""
    return [text.take(token, *LAW) for token in tokens]


def test_a_turn_ends_with_its_end_token_which_is_scored_too():
    text = writing([Turn(9, 1.0)])
    assert fed(text, 20, 21, END) == [True, True, False]
    document = text.document()
    assert document.tokens.tolist() == [10, 11, 20, 21, END]
    assert document.scored.tolist() == [False, False, True, True, True]
    assert document.top_ids.shape == document.top_probs.shape == (3, 2)


def test_a_turn_ends_at_its_limit():
    text = writing([Turn(2, 1.0), Turn(2, 1.0)])
    assert fed(text, 20, 21) == [True, False]


def test_an_answer_in_time_is_followed_by_the_next_turn_and_no_end_token_twice():
    text = writing([Turn(9, 0.0, then=(END, 30, 31)), Turn(9, 0.0)])
    assert fed(text, 20, END) == [True, True]
    assert text.sequence.tokens == [10, 11, 20, END, 30, 31]
    assert text.sequence.goal == 6
    assert fed(text, 21, END) == [True, False]
    assert text.document().scored.tolist() == [False, False, True, True, False, False, True, True]


def test_a_question_of_the_targets_own_is_not_scored_and_may_be_cut():
    text = writing([Turn(2, 0.8, scored=False, then=(END, 30)), Turn(9, 0.0)])
    assert text.temperature == 0.8
    assert fed(text, 20, 21) == [True, True]
    assert text.sequence.tokens == [10, 11, 20, 21, END, 30]
    assert text.temperature == 0.0
    assert fed(text, 22, END) == [True, False]
    assert text.document().num_scored == 2


def test_an_empty_question_leaves_no_document():
    text = writing([Turn(9, 0.8, scored=False, then=(END, 30)), Turn(9, 0.0)])
    assert fed(text, END) == [False]
    assert text.document() is None


def test_no_text_is_longer_than_the_limit():
    text = writing([Turn(50, 1.0)], max_len=5)
    assert fed(text, 20, 21, 22) == [True, True, False]


@pytest.mark.parametrize("period", [1, 3, 10])
def test_a_text_that_goes_round_ends(period):
    start = list(range(40))
    assert goes_round(start + list(range(100, 100 + period)) * 40, 0)
    assert not goes_round(start + list(range(100, 100 + period)) * 2, 0)


def test_a_repetition_in_the_prompt_is_not_the_targets():
    assert not goes_round([5] * 100, 90)
