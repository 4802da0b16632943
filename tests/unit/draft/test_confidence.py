"""What a draft makes of its own q, and what it learns that from."""

import numpy as np
import pytest

from draft_service.confidence import Confidence
from draft_service.drafted import Drafted
from draft_service.drawing import drawer
from forerun.engine.sequence import Sequence
from forerun.types import SamplingParams, Verification

COLUMNS = np.arange(8)
LOGITS = np.array([0.0, 3.0, 1.0, 0.5, -1.0, 0.0, 0.2, 2.0], np.float32)
LAW = np.exp(LOGITS) / np.exp(LOGITS).sum()


def test_it_begins_with_a_belief_that_grows_with_q_and_follows_what_it_sees():
    confidence = Confidence()
    beliefs = [confidence.acceptance(q) for q in (0.05, 0.3, 0.6, 0.99, 1.0)]
    assert beliefs == sorted(beliefs) and beliefs[0] > 0.2
    for _ in range(200):
        confidence.saw(0.3, False)
    assert confidence.acceptance(0.3) < 0.03
    assert confidence.acceptance(0.99) == beliefs[3]


def test_a_text_that_becomes_easy_is_believed_in_soon():
    confidence = Confidence()
    for accepted in [False] * 5000 + [True] * 700:
        confidence.saw(0.3, accepted)
    assert confidence.acceptance(0.3) > 0.7


def test_the_next_token_is_taken_to_be_like_all_of_late_not_like_the_mean_bin():
    confidence, rng = Confidence(), np.random.default_rng(3)
    for _ in range(20_000):
        q = 0.95 if rng.random() < 0.9 else rng.random()
        confidence.saw(q, rng.random() < (0.95 if q > 0.875 else 0.4))
    assert confidence.outlook([]) == pytest.approx(0.9, abs=0.05)
    assert confidence.outlook([0.95] * 3) > 0.7


def test_it_stops_only_where_it_is_asked_to():
    confidence = Confidence()
    assert not confidence.says_stop([0.01] * 9, 0.0)
    assert not confidence.says_stop([float("nan")], 0.0)
    assert confidence.says_stop([0.01] * 9, 0.3) and not confidence.says_stop([0.99], 0.3)


def test_the_outlook_falls_with_every_token_and_more_with_an_unsure_one():
    confidence = Confidence()
    outlooks = [confidence.outlook(qs) for qs in ([], [0.9], [0.9, 0.9], [0.9, 0.1])]
    assert outlooks == sorted(outlooks, reverse=True)


@pytest.mark.parametrize("rule", Verification)
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_q_is_what_the_draft_gives_its_token(rule, temperature):
    params = SamplingParams(temperature=temperature, verification=rule)
    draws = drawer(params, 1, bytes(16), COLUMNS, 16)
    drawn = draws.draw(LOGITS, [3, 4], 2)
    q = 1.0 if temperature == 0 and rule.needs_laws else LAW[drawn.token]
    assert drawn.q == pytest.approx(q, abs=1e-3)


def test_a_greedy_draft_finds_out_how_sure_it_is_only_where_somebody_wants_to_know():
    params = SamplingParams(temperature=0.0, verification=Verification.MATCH)
    drawn = drawer(params, 1, bytes(16), COLUMNS, 16).draw(LOGITS, [3, 4], 2, wants_q=False)
    assert drawn.token == 1 and np.isnan(drawn.q)
    assert Drafted(Sequence([1, 2, 1], ""), 2, qs=[drawn.q]).outcomes(2, [1, 7]) == []


def test_a_bias_that_lifts_an_unlikely_token_leaves_the_draft_unsure_of_it():
    params = SamplingParams(temperature=0.0, verification=Verification.MATCH, logit_bias=((4, 90.0),))
    drawn = drawer(params, 1, bytes(16), COLUMNS, 16).draw(LOGITS, [3, 4], 2)
    assert drawn.token == 4 and drawn.q == pytest.approx(LAW[4])


@pytest.mark.parametrize(
    ("base_len", "ids", "outcomes"),
    [
        (2, [], []),
        (5, [9], [(0.1, True), (0.2, True), (0.3, True)]),
        (3, [9], [(0.1, True), (0.2, False)]),
        (2, [5, 6, 9, 9], [(0.1, True), (0.2, True), (0.3, False)]),
        (1, [2, 5], [(0.1, True)]),
        (2, [5, 6, 7, 8, 9], [(0.1, True), (0.2, True), (0.3, True)]),
    ],
    ids=["nothing new", "all told to be kept", "one kept", "went on without", "an earlier start", "came true unasked"],
)
def test_what_a_transcript_says_of_the_drafted_tokens(base_len, ids, outcomes):
    drafted = Drafted(Sequence([1, 2, 5, 6, 7], ""), 2, qs=[0.1, 0.2, 0.3])
    assert drafted.outcomes(base_len, ids) == outcomes
