"""Stop strings: cut exactly, leak nothing, whatever the pieces."""

from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.stopping import StopStrings


def run(stops, pieces):
    """Returns (sent pieces, whether a stop was found)."""
    stopping, sent = StopStrings(stops), []
    for piece in pieces:
        text, found = stopping.push(piece)
        sent.append(text)
        if found:
            return sent, True
    return [*sent, stopping.flush()], False


def reference(stops, text):
    """Cut before the stop string that completes first, the longest of those."""
    for end in range(len(text) + 1):
        starts = [end - len(stop) for stop in stops if text[:end].endswith(stop)]
        if starts:
            return text[: min(starts)], True
    return text, False


letters = st.text("ab\u4f60", max_size=24)
stop_lists = st.lists(st.text("ab\u4f60", min_size=1, max_size=4), max_size=4)


@given(stop_lists, letters, st.data())
@settings(max_examples=500, deadline=None)
def test_any_cutting_into_pieces_gives_the_same_text(stops, text, data):
    """Case 13."""
    cuts = sorted(data.draw(st.sets(st.integers(0, len(text)))))
    pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    sent, found = run(stops, pieces)
    assert ("".join(sent), found) == reference(stops, text)


@given(stop_lists, letters)
@settings(max_examples=200, deadline=None)
def test_nothing_that_was_sent_is_ever_part_of_a_stop_string(stops, text):
    """Case 13: at every moment what was sent is a prefix of the final text."""
    final, _ = reference(stops, text)
    sent, _ = run(stops, list(text))
    for i in range(len(sent)):
        assert final.startswith("".join(sent[: i + 1]))


def test_text_without_stop_strings_is_never_held():
    assert run([], ["a", "b"]) == (["a", "b", ""], False)


def test_only_what_may_become_a_stop_string_is_held():
    assert run(["END"], ["xE", "Ny", "EN"]) == (["x", "ENy", "", "EN"], False)
