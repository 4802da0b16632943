"""Bodies to jobs: defaults, limits, and refusals that name the parameter."""

import json

import pytest

from forerun.errors import InvalidRequest, UnknownModel
from forerun.types import Verification
from gateway.api.errors import ContextLengthExceeded, UnknownParameter, Unsupported
from gateway.api.http import parse_json
from gateway.api.limits import Limits
from gateway.api.requests import Requests
from tests.support.byte_text import byte_model, byte_text

MODEL = byte_model()
EOS = MODEL.eos_token_ids[0]
REQUESTS = Requests(byte_text(), MODEL, Limits())
SECRET = "tell nobody"


def chat(**more):
    return REQUESTS.chat({"model": "tiny", "messages": [{"role": "user", "content": SECRET}], **more})


def completion(**more):
    return REQUESTS.completion({"model": "tiny", "prompt": SECRET, **more})


def refused(call, **more):
    with pytest.raises(InvalidRequest) as caught:
        call(**more)
    assert SECRET not in str(caught.value)
    return caught.value


@pytest.mark.parametrize(
    ("given", "rule"),
    [
        ({}, Verification.REJECTION),
        ({"temperature": 0}, Verification.MATCH),
        ({"temperature": 1e-9}, Verification.MATCH),
        ({"seed": 1}, Verification.MATCH),
        ({"seed": 1, "speculative": {"verification": "rejection"}}, Verification.REJECTION),
        ({"speculative": {"verification": "coupled"}}, Verification.MATCH),
        ({"speculative": {"verification": "block"}}, Verification.BLOCK),
        ({"temperature": 0, "speculative": {"verification": "rejection"}}, Verification.MATCH),
    ],
)
def test_the_verification_rule_follows_temperature_seed_and_wish(given, rule):
    assert chat(**given).sampling.params.verification is rule


def test_requests_without_seed_draw_a_fresh_one():
    assert chat().sampling.seed != chat().sampling.seed


def test_negative_seeds_are_taken_modulo_two_to_the_64():
    assert chat(seed=-1).sampling.seed == (1 << 64) - 1


def test_eos_and_stop_token_ids_are_banned_until_min_tokens():
    """Case 18."""
    params = chat(stop_token_ids=[7], min_tokens=3).sampling.params
    assert (params.stop_token_ids, params.min_tokens) == ((7, EOS), 3)
    assert chat(stop_token_ids=[7], ignore_eos=True).sampling.params.stop_token_ids == (7,)


def test_every_sampling_parameter_arrives():
    """Case 17, 20: none is dropped silently."""
    given = {"temperature": 0.5, "top_p": 0.9, "top_k": 5, "min_p": 0.1}
    given |= {"presence_penalty": 1.5, "frequency_penalty": -1}
    params = chat(**given, repetition_penalty=1.1, logit_bias={"3": -100, "1": 2.5}).sampling.params
    assert {name: getattr(params, name) for name in given} == given
    assert (params.repetition_penalty, params.logit_bias) == (1.1, ((1, 2.5), (3, -100.0)))


HARMLESS = [
    {"user": "u"},
    {"metadata": {"a": "b"}},
    {"store": True},
    {"store": False},
    {"service_tier": "auto"},
    {"safety_identifier": "x"},
    {"prompt_cache_key": "x"},
    {"tools": []},
    {"tools": None},
    {"response_format": {"type": "text"}},
    {"n": 1},
    {"logit_bias": {}},
    {"stop": None},
    {"stop": []},
    {"modalities": ["text"]},
    {"tool_choice": "none"},
    {"best_of": 1},
    {"unknown_but_null": None},
    {"top_k": -1},
    {"speculative": None},
    {"speculative": {}},
    {"stream_options": None},
]


@pytest.mark.parametrize("more", HARMLESS, ids=json.dumps)
def test_hints_nulls_and_explicit_defaults_are_accepted(more):
    """Case 19: what changes nothing is no error."""
    assert chat(**more).n == 1


UNSUPPORTED = {
    "tools": [{"type": "function", "function": {"name": "f"}}],
    "functions": [{"name": "f"}],
    "response_format": {"type": "json_object"},
    "audio": {"voice": "x", "format": "wav"},
    "modalities": ["text", "audio"],
    "best_of": 3,
    "prediction": {"type": "content", "content": "x"},
    "reasoning_effort": "high",
    "web_search_options": {},
    "echo": True,
    "include_stop_str_in_output": True,
    "prompt_logprobs": 0,
}


@pytest.mark.parametrize("name", UNSUPPORTED)
def test_a_parameter_that_would_change_the_output_is_refused_by_name(name):
    """Case 19."""
    error = refused(chat, **{name: UNSUPPORTED[name]})
    assert isinstance(error, Unsupported)
    assert error.param == name


def test_a_completion_s_suffix_is_refused_by_name():
    """Case 19."""
    assert refused(completion, suffix="x").param == "suffix"


def test_an_unknown_parameter_is_refused_by_name():
    """Case 19."""
    error = refused(chat, temprature=0.3)
    assert isinstance(error, UnknownParameter)
    assert error.param == "temprature"
    assert refused(chat, speculative={"k": 3}).param == "speculative.k"


WRONG = [
    ("temperature", -0.1),
    ("temperature", 2.1),
    ("temperature", "1"),
    ("temperature", True),
    ("top_p", 1.5),
    ("top_k", 1.5),
    ("min_p", -1),
    ("presence_penalty", 3),
    ("frequency_penalty", -3),
    ("repetition_penalty", 0),
    ("n", 0),
    ("n", 129),
    ("seed", 1.5),
    ("seed", 1 << 64),
    ("stop", [""]),
    ("stop", ["x"] * 17),
    ("stop", 3),
    ("stop", ["x" * 2000]),
    ("stop_token_ids", [MODEL.vocab_size]),
    ("stop_token_ids", 3),
    ("logit_bias", {"x": 1}),
    ("logit_bias", {str(MODEL.vocab_size): 1}),
    ("logit_bias", {"-1": 1}),
    ("logit_bias", {"1": 101}),
    ("logit_bias", [1]),
    ("max_tokens", 0),
    ("max_tokens", -1),
    ("max_tokens", 1 << 20),
    ("min_tokens", 255),
    ("top_logprobs", 21),
    ("top_logprobs", 2),
    ("logprobs", 3),
    ("stream", "yes"),
    ("stream_options", {"include_usage": True}),
    ("messages", []),
    ("messages", "hi"),
    ("messages", [{"role": "user", "content": SECRET}] * 10_001),
    ("cache_salt", "x" * 300),
    ("chat_template_kwargs", {"messages": []}),
]


@pytest.mark.parametrize(("name", "value"), WRONG, ids=lambda value: str(value)[:30])
def test_a_value_out_of_range_is_refused_by_name(name, value):
    assert refused(chat, **{name: value}).param == name


@pytest.mark.parametrize(
    ("name", "value"),
    [("enabled", 1), ("num_draft_tokens", -1), ("num_draft_tokens", 1000), ("verification", "typical")],
)
def test_a_wrong_speculative_setting_is_refused_by_name(name, value):
    assert refused(chat, speculative={name: value}).param == f"speculative.{name}"


def test_min_tokens_may_not_exceed_max_tokens():
    assert refused(chat, min_tokens=5, max_tokens=4).param == "min_tokens"


def test_an_unknown_model_is_named():
    assert isinstance(refused(chat, model="gpt-9"), UnknownModel)
    assert chat(model="alias").model == "alias"
    assert chat(model=None).model == "tiny"


def test_prompt_and_max_tokens_may_fill_the_context_exactly_and_no_more():
    """Case 15."""
    prompt = [1] * 200
    assert REQUESTS.completion({"prompt": prompt, "max_tokens": 56}).prompts[0].max_tokens == 56
    error = refused(REQUESTS.completion, body={"prompt": prompt, "max_tokens": 57})
    assert isinstance(error, ContextLengthExceeded)
    assert all(number in str(error) for number in ("200", "57", "256"))


def test_a_prompt_over_the_limit_is_refused_with_both_numbers():
    """Case 15, for ids, for text, and for text so long that it is not even split."""
    for prompt, number in (([1] * 257, "257"), ("x" * 300, "300"), ("x" * 100_000, "256")):
        error = refused(REQUESTS.completion, body={"prompt": prompt})
        assert isinstance(error, ContextLengthExceeded)
        assert number in str(error)
        assert "256" in str(error)


def test_max_tokens_defaults_to_the_rest_for_chats_and_to_sixteen_for_completions():
    job = chat()
    assert job.prompts[0].max_tokens == 256 - len(job.prompts[0].ids)
    assert completion().prompts[0].max_tokens == 16
    assert REQUESTS.completion({"prompt": [1] * 250}).prompts[0].max_tokens == 6


def test_both_names_of_max_tokens_work_but_may_not_disagree():
    assert chat(max_completion_tokens=3).prompts[0].max_tokens == 3
    assert chat(max_completion_tokens=3, max_tokens=3).prompts[0].max_tokens == 3
    assert refused(chat, max_completion_tokens=3, max_tokens=4).param == "max_tokens"


@pytest.mark.parametrize(
    ("prompt", "num"), [("ab", 1), (["ab", "c"], 2), ([1, 2], 1), ([[1, 2], [3]], 2), (["ab", [3]], 2)]
)
def test_a_prompt_comes_in_four_forms(prompt, num):
    assert len(REQUESTS.completion({"prompt": prompt}).prompts) == num


@pytest.mark.parametrize(
    "prompt", [None, "", [], [[]], [""], [1, "a"], ["a", 1], [True], [259 + 256], [-1], [1.5], {"a": 1}, "\ud800"]
)
def test_a_malformed_prompt_is_refused(prompt):
    assert refused(REQUESTS.completion, body={"prompt": prompt}).param == "prompt"


def test_prompts_times_n_are_bounded():
    assert refused(REQUESTS.completion, body={"prompt": ["a"] * 65, "n": 2}).param == "n"


def test_content_may_be_text_parts_and_nothing_else():
    parts = [{"type": "text", "text": "tell "}, {"type": "text", "text": "nobody"}]
    job = REQUESTS.chat({"messages": [{"role": "user", "content": parts}]})
    assert job.prompts == chat().prompts
    image = [{"type": "image_url", "image_url": {"url": "http://x"}}]
    error = refused(REQUESTS.chat, body={"messages": [{"role": "user", "content": image}]})
    assert error.param == "messages.0.content.0"


@pytest.mark.parametrize(
    ("message", "param"),
    [
        ({"role": "wizard", "content": SECRET}, "messages.0.role"),
        ({"role": ["user"], "content": SECRET}, "messages.0.role"),
        ({"role": "user"}, "messages.0.content"),
        ({"role": "user", "content": 3}, "messages.0.content"),
        ({"role": "user", "content": SECRET, "mood": "x"}, "messages.0.mood"),
        ({"role": "assistant", "content": SECRET, "tool_calls": [{}]}, "messages.0.tool_calls"),
        ("hi", "messages.0"),
    ],
)
def test_a_malformed_message_is_refused_by_its_place(message, param):
    assert refused(REQUESTS.chat, body={"messages": [message]}).param == param


def test_an_answer_of_ours_can_be_sent_back_as_it_came():
    message = {"role": "assistant", "content": "x", "refusal": None, "annotations": None, "audio": None}
    job = REQUESTS.chat({"messages": [{"role": "user", "content": "a"}, {**message, "tool_calls": None}]})
    assert job.prompts


def test_special_tokens_in_a_chat_are_single_ids_and_a_bos_is_not_doubled():
    ids = chat().prompts[0].ids
    assert ids.count(EOS) == 1


def test_the_cache_of_one_key_is_none_of_another_s():
    body = {"messages": [{"role": "user", "content": "a"}]}
    pairs = [(key, salt) for key in ("", "a", "b") for salt in ("", "s")]
    salts = {REQUESTS.chat({**body, "cache_salt": salt}, key).cache_salt for key, salt in pairs}
    assert len(salts) == 6


@pytest.mark.parametrize("raw", [b"", b"{", b"[1]", b'{"a": NaN}', b"\xff", b"[" * 100_000, b"1" * 5000, b'"x"'])
def test_malformed_json_is_an_invalid_request(raw):
    with pytest.raises(InvalidRequest, match="body"):
        parse_json(raw)


@pytest.mark.parametrize(
    ("context_len", "more", "share"),
    [
        (8_192, {"n": 3, "logprobs": True, "top_logprobs": 20}, 500_000 // 21 // 3),
        (8_192, {"n": 17}, 16 * 8_192 // 17),
        (131_072, {"logprobs": True, "top_logprobs": 5}, 500_000 // 6),
    ],
)
def test_a_default_of_max_tokens_gives_way_to_the_limits_and_a_wish_does_not(context_len, more, share):
    requests = Requests(byte_text(), byte_model(context_len), Limits(output_tokens=16 * context_len))
    body = {"model": "tiny", "messages": [{"role": "user", "content": "hi"}], **more}
    job = requests.chat(body)
    assert [prompt.max_tokens for prompt in job.prompts] == [share]
    with pytest.raises(InvalidRequest) as caught:
        requests.chat({**body, "max_tokens": share + 1})
    assert "echo" not in str(caught.value)
    assert requests.chat({**body, "max_tokens": share}) is not None
