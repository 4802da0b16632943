"""Texts begin as users' requests would reach the target: through its own template, and without any data set."""

import dataclasses

import numpy as np
import pytest

from forerun.models.tokenizer_files import read_model_text
from forerun.training.chat_format import ChatFormat
from forerun.training.openings import TEMPERATURES, make_openings
from forerun.training.seeds import Passages, Seeds

NUM_DRAWN = 400


@pytest.fixture(scope="module")
def text(tiny_pair):
    return read_model_text(tiny_pair.target)


def drawn(openings, count=NUM_DRAWN):
    return [openings.open(index, np.random.default_rng([0, index])) for index in range(count)]


def decoded(text, ids):
    return text.tokenizer.decode(list(ids), skip_special_tokens=False)


def test_the_pieces_of_a_chat_are_the_template_around_its_contents(text):
    form = ChatFormat(text)
    assert decoded(text, form.before_user()) == "<|im_start|>user\n"
    assert decoded(text, form.before_user("be kind")) == "<|im_start|>system\nbe kind<|im_end|>\n<|im_start|>user\n"
    assert decoded(text, form.after_user) == "<|im_end|>\n<|im_start|>assistant\n"
    assert decoded(text, form.request("why")) == "<|im_start|>user\nwhy<|im_end|>\n<|im_start|>assistant\n"
    after = "<|im_end|>\n<|im_start|>user\nand<|im_end|>\n<|im_start|>assistant\n"
    assert decoded(text, form.after_answer("and")) == after
    assert form.ends == {2}


def test_a_template_without_system_messages_is_used_without_them(text):
    refusing = "{% if messages[0]['role'] == 'system' %}{{ raise_exception('no') }}{% endif %}" + text.chat_template
    form = ChatFormat(dataclasses.replace(text, chat_template=refusing))
    assert form.request("why", system="be kind") == form.request("why")


def test_an_instruct_model_asks_itself_and_is_asked(text):
    openings = drawn(make_openings(text, Passages(), 32))
    own = [opening for opening in openings if not opening.turns[0].scored]
    assert 0.3 * NUM_DRAWN < len(own) < 0.5 * NUM_DRAWN
    assert {opening.ids for opening in own} == {ChatFormat(text).before_user()}
    assert all(opening.turns[1].scored for opening in own)
    asked = {opening.ids for opening in openings if opening.turns[0].scored}
    assert len(asked) > 0.5 * NUM_DRAWN
    assert {turn.temperature for opening in openings for turn in opening.turns if turn.scored} == set(TEMPERATURES)


def test_a_base_model_begins_with_a_token_or_a_plain_text(text):
    openings = drawn(make_openings(dataclasses.replace(text, chat_template=None), Passages(), 32))
    assert 0.35 * NUM_DRAWN < sum(len(opening.ids) == 1 for opening in openings) < 0.65 * NUM_DRAWN
    assert all(opening.ids and opening.turns[0].scored for opening in openings)
    assert not any(set(opening.ids) & text.special_ids for opening in openings if len(opening.ids) == 1)


def test_prompts_of_a_file_come_in_turn_and_at_every_temperature(text):
    openings = drawn(make_openings(text, Passages(), 32, [("one",), ("two", "three")]), 8)
    assert openings[0].ids == openings[2].ids == ChatFormat(text).request("one")
    assert [len(opening.turns) for opening in openings] == [1, 2] * 4
    assert {opening.turns[0].temperature for opening in openings[0:6:2]} == set(TEMPERATURES)
    assert openings[1].turns[0].then == ChatFormat(text).after_answer("three")


def test_a_share_of_the_texts_answers_the_file_and_the_rest_does_not(text):
    openings = drawn(make_openings(text, Passages(), 32, [("one",)], 0.25))
    of_file = [opening for opening in openings if opening.ids == ChatFormat(text).request("one")]
    assert 0.15 * NUM_DRAWN < len(of_file) < 0.35 * NUM_DRAWN
    assert any(not opening.turns[0].scored for opening in openings)


def test_after_all_temperatures_no_greedy_text_is_written_twice(text):
    openings = drawn(make_openings(text, Passages(), 32, [("one",)]), 12)
    assert sum(opening.turns[0].temperature == 0 for opening in openings) == 1


def test_every_template_can_be_filled(text):
    passages = Passages()
    seeds = Seeds(passages)
    rng = np.random.default_rng(0)
    before = [seeds.draw(rng) for _ in range(2000)]
    passages.offer("A passage that says something. " * 10)
    passages.offer("Here:\n```python\n" + "print(1)\n" * 30 + "```")
    after = [seeds.draw(rng) for _ in range(4000)]
    texts = [turn for request in (*before, *after) for turn in request.turns]
    assert all(turn.strip() for turn in texts)
    assert len(set(texts)) > 3000
    assert any("A passage that says something." in turn for turn in texts)
    assert any("print(1)" in turn for turn in texts)


def test_short_answers_are_no_passages():
    passages = Passages()
    passages.offer("Yes.")
    assert passages.pick("passage", np.random.default_rng(0)) is None
