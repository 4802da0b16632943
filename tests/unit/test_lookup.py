"""Lookups find what a plain search finds, and read a token in constant time."""

import random
import time

import pytest

from forerun.lookup import Place, continuation
from forerun.lookup.ngram import NgramIndex
from forerun.lookup.suffix_automaton import SuffixAutomaton


def longest_repetition(text):
    """The length of the longest end of `text` that also ends earlier."""
    return max(
        (n for n in range(1, len(text)) if any(text[i : i + n] == text[-n:] for i in range(len(text) - n))), default=0
    )


@pytest.mark.parametrize("seed", range(30))
def test_the_automaton_finds_the_longest_repetition_at_every_place(seed):
    rng = random.Random(seed)
    automaton, text = SuffixAutomaton(), []
    for _ in range(60):
        text.append(rng.randrange(2 + seed % 4))
        automaton.read(text[-1])
        place = automaton.place()
        assert (place.length if place else 0) == longest_repetition(text)
        if place:
            assert place.start < len(text)
            assert text[place.start - place.length : place.start] == text[-place.length :]


@pytest.mark.parametrize("seed", range(10))
def test_the_index_finds_the_latest_earlier_place_of_the_longest_ngram(seed):
    rng = random.Random(seed)
    index, text = NgramIndex(4, 2), []
    for _ in range(80):
        text.append(rng.randrange(3))
        index.read(text[-1])
        found = [
            Place(start, n)
            for n in (4, 3, 2)
            for start in range(len(text) - 1, n - 1, -1)
            if text[start - n : start] == text[-n:]
        ]
        assert index.place() == (found[0] if found else None)
    assert len(index) == 80


def test_a_repetition_that_was_gone_through_twice_is_continued_as_the_last_time():
    automaton = SuffixAutomaton()
    text = [1, 2, 3, 8, 1, 2, 3, 9, 1, 2, 3]
    for token in text:
        automaton.read(token)
    assert continuation(text, automaton.place(), 2) == (9, 1)


def test_a_text_that_goes_round_is_continued_round():
    assert continuation([7, 1, 2, 3], Place(1, 0), 7) == (1, 2, 3, 1, 2, 3, 1)


def test_reading_a_long_text_takes_constant_time_a_token():
    """The most states and transitions per token come with texts like aaa…b and random ones; both stay linear."""
    for text in ([1] * 20_000, [random.Random(1).randrange(50_000) for _ in range(20_000)]):
        automaton = SuffixAutomaton()
        started = time.process_time()
        for token in text:
            automaton.read(token)
        assert len(automaton._next) <= 2 * len(text)
        assert (time.process_time() - started) / len(text) < 50e-6
