"""What the gateway's own drafters may hold of a text."""

import random

import pytest

from gateway.own_drafters import SLICE
from gateway.own_drafting import MAX_PROMPT_LEN, OwnDrafting
from gateway.own_memory import OwnMemory
from gateway.pair import PairRecord
from gateway.transcript import Transcript

PHRASE = [5, 3, 8, 1]


@pytest.fixture(autouse=True)
def _every_offer_is_taken(monkeypatch):
    monkeypatch.setattr("gateway.own_drafting.MIN_GAIN", 0.0)


def drafting(prompt, memory):
    pair, transcript = PairRecord(), Transcript(prompt)
    pair.costs.saw_plain(1, 0.01, 0.01)
    return OwnDrafting(pair, "greedy", transcript, 2, True, memory), transcript


def follow(own, num_tokens):
    for _ in range(num_tokens // SLICE + 1):
        own.follow(1)


def test_a_long_prompt_is_held_from_its_last_tokens_on_and_still_looked_up():
    rng, memory = random.Random(1), OwnMemory(50_000)
    prompt = [rng.randrange(10, 50_000) for _ in range(100_000)]
    own, _ = drafting([*prompt, *PHRASE, *prompt[:100], *PHRASE[:2]], memory)
    follow(own, len(prompt))
    assert memory.num_free == 50_000 - MAX_PROMPT_LEN
    assert own.offer(1, 2).tokens == (8, 1)
    own.close()
    assert memory.num_free == 50_000


def test_where_the_memory_is_full_a_text_goes_on_without_and_its_share_is_given_back():
    memory = OwnMemory(2 * SLICE)
    first, _ = drafting(PHRASE * 100, memory)
    follow(first, 400)
    assert memory.num_free == 2 * SLICE - 400
    second, transcript = drafting(PHRASE * 50, memory)
    follow(second, 200)
    assert second.offer(1, 2) is None and not second.is_hopeful(1)
    transcript.commit(PHRASE)
    second.follow(1)
    assert second.offer(1, 2) is None
    assert first.offer(1, 2) is not None
    for own in (first, second, second):
        own.close()
    assert memory.num_free == 2 * SLICE
