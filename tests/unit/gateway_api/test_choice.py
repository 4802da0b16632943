"""Where a choice's text ends, token by token."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.api.choice import ChoiceSink
from gateway.api.job import Ending
from tests.support.byte_text import byte_model, byte_text
from tests.support.fake_coordinator import laws

TEXT = byte_text()
EOS = byte_model().eos_token_ids[0]


def feed(tokens, ending=None, max_tokens=100, run_len=1, num_logprobs=None):
    """Pushes until a reason comes; returns (sink, pieces), a piece a run."""
    sink = ChoiceSink(0, TEXT, ending or Ending(stop_token_ids=frozenset({EOS})), max_tokens, lambda _: None)
    pieces, reason = [], None
    for i, token in enumerate(tokens, 1):
        reason = sink.push(token, None if num_logprobs is None else laws(token, num_logprobs))
        if reason or i % run_len == 0:
            pieces.append(sink.take())
        if reason:
            break
    return sink, pieces


def text_of(pieces):
    return "".join(piece.text for piece in pieces)


def test_an_eos_inside_a_run_ends_the_text_there():
    """Case 11."""
    sink, pieces = feed([*TEXT.encode("hi"), EOS, *TEXT.encode("more")], run_len=8)
    assert (text_of(pieces), sink.finish_reason, sink.num_tokens) == ("hi", "stop", 3)


def test_stop_and_cap_on_one_token_give_stop():
    """Case 12, for a stop token and for a stop string."""
    sink, pieces = feed([*TEXT.encode("ab"), EOS], max_tokens=3)
    assert (text_of(pieces), sink.finish_reason) == ("ab", "stop")
    sink, pieces = feed(TEXT.encode("ab."), Ending(stop_strings=(".",)), max_tokens=3)
    assert (text_of(pieces), sink.finish_reason) == ("ab", "stop")


def test_the_cap_lets_go_of_what_was_held():
    sink, pieces = feed(TEXT.encode("abEN你"), Ending(stop_strings=("END",)), max_tokens=5)
    assert (text_of(pieces), sink.finish_reason) == ("abEN\ufffd", "length")


@pytest.mark.parametrize("run_len", range(1, 9))
def test_a_stop_string_across_runs_leaks_nothing(run_len):
    """Case 13: nor do the logprobs of its tokens."""
    tokens = TEXT.encode("before<STOP>after")
    sink, pieces = feed(tokens, Ending(stop_strings=("<STOP>",)), run_len=run_len, num_logprobs=1)
    assert (text_of(pieces), sink.finish_reason) == ("before", "stop")
    ids = [token for piece in pieces for token in piece.logprob_ids]
    assert "".join(TEXT.token_text(token) for token in ids) == "before"


def test_usage_counts_every_committed_id():
    """Case 14: also those whose text a stop string cut away."""
    tokens = TEXT.encode("ab<STOP>")
    sink, pieces = feed(tokens, Ending(stop_strings=("<STOP>",)))
    assert sink.num_tokens == len(tokens) == sum(len(piece.token_ids) for piece in pieces)


def test_stop_strings_do_not_count_before_min_tokens():
    """Case 18."""
    sink, pieces = feed(TEXT.encode("a.b.c"), Ending(stop_strings=(".",), min_tokens=4))
    assert (text_of(pieces), sink.finish_reason) == ("a.b", "stop")


@given(st.text("ab.E\u4f60🤷", max_size=20), st.integers(1, 9), st.integers(1, 40))
@settings(max_examples=200, deadline=None)
def test_the_length_of_runs_changes_nothing(text, run_len, max_tokens):
    """Cases 11 to 14 and 23: text, reason, ids and logprobs are those of runs of one."""
    tokens, ending = [*TEXT.encode(text), EOS], Ending(("E.", "ab."), frozenset({EOS}))
    one, pieces_of_one = feed(tokens, ending, max_tokens, 1, 2)
    sink, pieces = feed(tokens, ending, max_tokens, run_len, 2)
    assert (sink.finish_reason, sink.num_tokens) == (one.finish_reason, one.num_tokens)
    for field in ("text", "token_ids", "logprob_ids", "logprobs"):
        whole, parts = [[x for p in ps for x in getattr(p, field)] for ps in (pieces_of_one, pieces)]
        assert whole == parts
