"""A stream's events become times: to the first text, of a token, between pieces."""

import pytest

from forerun.bench.answer import Answer
from forerun.errors import ServiceUnavailable
from tests.unit.bench.answers import answer, counts, piece


def test_times_are_of_text_and_tokens_of_the_usage():
    seen = answer(10.0, 10.5, 10.7, 11.5, num_tokens=6, speculative=counts(2, 8, 3))
    assert seen.ttft_s == pytest.approx(0.5)
    assert seen.tpot_s == pytest.approx(1.0 / 5)
    assert seen.gaps_s == pytest.approx([0.2, 0.8])
    assert (seen.text, seen.num_tokens) == ("xxx", 6)
    assert seen.speculative == counts(2, 8, 3)


def test_an_event_without_text_is_no_first_token():
    seen = Answer(0.0)
    seen.take({"choices": [{"delta": {"role": "assistant", "content": ""}}]}, 0.1)
    assert seen.ttft_s is None
    seen.take(piece("a"), 0.4)
    assert seen.ttft_s == pytest.approx(0.4)


def test_the_end_without_text_counts_for_the_time_of_a_token():
    """The token that ends a text is one of the usage's and takes its time, but shows no text."""
    seen = Answer(0.0)
    for at_s, event in ((1.0, piece("a")), (2.0, piece("b")), (3.0, piece("", "stop"))):
        seen.take(event, at_s)
    seen.take({"choices": [], "usage": {"completion_tokens": 3}}, 9.0)
    assert seen.tpot_s == pytest.approx(1.0)
    assert seen.gaps_s == [1.0]


@pytest.mark.parametrize(("arrivals_s", "num_tokens"), [((), 0), ((1.0,), 1), ((1.0,), 5)])
def test_what_came_at_once_has_no_time_of_a_token(arrivals_s, num_tokens):
    assert answer(0.0, *arrivals_s, num_tokens=num_tokens).tpot_s is None


def test_an_error_in_mid_stream_is_told_in_the_servers_words():
    with pytest.raises(ServiceUnavailable, match="the target is gone"):
        Answer(0.0).take({"error": {"message": "the target is gone"}}, 1.0)
