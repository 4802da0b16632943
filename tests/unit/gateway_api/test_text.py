"""Ids to text: nothing is lost, nothing is split."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers.processors import TemplateProcessing

from forerun.errors import InvalidRequest
from gateway.text import Text
from tests.support.byte_text import byte_text, byte_tokenizer

TEXT = byte_text()
SAMPLES = ["hello world", "你好，世界", "🤷🏽‍♂️ ok", "naïve — 한국어", "the hell", "\ufffd", "tail\ufffd"]


def streamed(ids):
    detokenizer = TEXT.detokenizer()
    return [detokenizer.push(token) for token in ids] + [detokenizer.flush()]


@pytest.mark.parametrize("text", SAMPLES)
def test_streamed_deltas_joined_are_the_text(text):
    """Cases 23 and 24: CJK and emoji whose characters span tokens."""
    assert "".join(streamed(TEXT.encode(text))) == text


@given(st.text(max_size=40), st.integers(0, 60))
@settings(max_examples=200, deadline=None)
def test_any_truncation_gives_what_decoding_at_once_gives(text, cut):
    """Case 23, 24: a character cut short comes out as U+FFFD, at the end only."""
    ids = TEXT.encode(text)[:cut]
    assert "".join(streamed(ids)) == TEXT.decode(ids)


def test_no_delta_carries_a_replacement_character_that_is_not_in_the_text():
    """Case 24."""
    deltas = streamed(TEXT.encode("a🤷🏽‍♂️你b"))
    assert not any("\ufffd" in delta for delta in deltas)


@given(st.lists(st.integers(0, 255), max_size=80))
@settings(max_examples=200, deadline=None)
def test_garbage_bytes_come_out_bounded_and_never_raise(ids):
    deltas = streamed(ids)
    assert len("".join(deltas)) <= len(ids)


def test_special_tokens_give_no_text():
    ids = TEXT.encode("he<|im_end|>ll")
    assert len(ids) == 3
    assert "".join(streamed(ids)) == "hell"


@given(st.text(max_size=30))
@settings(max_examples=100, deadline=None)
def test_token_bytes_joined_are_the_text_in_utf8(text):
    assert b"".join(TEXT.token_bytes(token) for token in TEXT.encode(text)) == text.encode()


def test_a_bos_that_the_text_brings_is_not_doubled():
    tokenizer = byte_tokenizer()
    bos = tokenizer.token_to_id("<|im_start|>")
    special = [("<|im_start|>", bos)]
    tokenizer.post_processor = TemplateProcessing(single="<|im_start|> $A", special_tokens=special)
    text = Text(tokenizer)
    assert text.encode("hi") == [bos, *TEXT.encode("hi")]
    assert text.encode("<|im_start|>hi") == text.encode("hi")
    assert text.encode("hi", add_special_tokens=False) == TEXT.encode("hi")


def test_a_lone_surrogate_is_an_invalid_request():
    with pytest.raises(InvalidRequest, match="Unicode"):
        TEXT.encode("a\ud800b")


def test_a_template_renders_as_transformers_renders_it():
    template = "{%- for m in messages %}\n  {% if loop.index > 1 %}{% break %}{% endif %}\n{{ m | tojson }}\n"
    template += "{% endfor %}{{ tools }}|{{ bos_token }}|"
    messages = [{"role": "user", "content": "<é>"}, {"role": "user", "content": "b"}]
    from transformers.utils.chat_template_utils import render_jinja_template

    theirs, _ = render_jinja_template(conversations=[messages], chat_template=template)
    assert byte_text(template).render_chat(messages, add_generation_prompt=False) == theirs[0]


def test_a_template_s_complaint_reaches_the_client_without_its_text():
    text = byte_text("{{ raise_exception('roles must alternate') }}")
    with pytest.raises(InvalidRequest, match="roles must alternate"):
        text.render_chat([{"role": "user", "content": "secret"}])
    text = byte_text("{{ raise_exception('bad: ' + messages[0]['content']) }}")
    with pytest.raises(InvalidRequest) as caught:
        text.render_chat([{"role": "user", "content": "secret"}])
    assert "secret" not in str(caught.value)


def test_a_template_cannot_leave_the_sandbox():
    text = byte_text("{{ ''.__class__.__mro__[1].__subclasses__() }}")
    with pytest.raises(InvalidRequest):
        text.render_chat([{"role": "user", "content": "x"}])


def test_a_model_without_template_refuses_chats():
    with pytest.raises(InvalidRequest, match="no chat template"):
        byte_text(None).render_chat([{"role": "user", "content": "x"}])
