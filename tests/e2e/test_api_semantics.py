"""What each parameter of the API means, across three real processes: the same with a draft as without one."""

import httpx
import pytest

MODEL = "tiny-target"
EOS = 2
PROMPT = "the stone is another "
KS = (0, None, 1, 3, 8)
CONTEXT = 512
PLAIN = {"prompt": PROMPT, "max_tokens": 60, "ignore_eos": True, "return_token_ids": True}


@pytest.fixture(scope="session")
def gateway(fleet, tiny_pair, tiny_target, tiny_draft):
    """A gateway over the tiny pair."""
    return fleet.gateway(tiny_pair.target, tiny_target.address, (tiny_draft.address,))


@pytest.fixture
def http(gateway):
    with httpx.Client(base_url=gateway.url, timeout=60) as http:
        yield http


def ask(http, k=0, path="/v1/completions", **fields):
    """The answer of one choice: (its choice, usage)."""
    answer = http.post(path, json=_body(k, fields))
    assert answer.status_code == 200, answer.text
    (choice,) = answer.json()["choices"]
    return choice, answer.json()["usage"]


def stream(http, k=0, **fields):
    """The texts of a stream's chunks and its finish reason."""
    texts, reasons = [], []
    with http.stream("POST", "/v1/completions", json=_body(k, {**fields, "stream": True})) as answer:
        for line in answer.iter_lines():
            if line.startswith("data: {"):
                (choice,) = httpx.Response(200, text=line[6:]).json()["choices"]
                texts.append(choice["text"])
                reasons += [choice["finish_reason"]] if choice["finish_reason"] else []
    return texts, reasons


def refused(http, path="/v1/completions", **fields):
    """The error object of a 400."""
    answer = http.post(path, json=_body(0, fields))
    assert answer.status_code == 400, answer.text
    return answer.json()["error"]


def _body(k, fields):
    speculative = {"enabled": k != 0, **({"num_draft_tokens": k} if k else {})}
    body = {"model": MODEL, **PLAIN, "speculative": speculative, **fields}
    return {name: value for name, value in body.items() if value is not ...}


@pytest.mark.parametrize("fields", [{"temperature": 0.0}, {"seed": 5}])
@pytest.mark.parametrize("stop_len", [1, 3, 7])
def test_a_stop_string_cuts_exactly_before_it_wherever_runs_end(http, fields, stop_len):
    """Cases 13 and 14: no part of it leaks into a chunk; usage counts the tokens that were committed."""
    plain, _ = ask(http, **fields)
    for start in (10, 17, 29):
        stop = plain["text"][start : start + stop_len]
        expected = plain["text"][: plain["text"].index(stop)]
        for k in KS:
            choice, usage = ask(http, k, stop=[stop, "never said"], **fields)
            assert (choice["text"], choice["finish_reason"]) == (expected, "stop"), (stop, k)
            assert choice["token_ids"] == plain["token_ids"][: usage["completion_tokens"]]
        texts, reasons = stream(http, 8, stop=[stop], **fields)
        assert ("".join(texts), reasons) == (expected, ["stop"])


@pytest.mark.parametrize("k", KS)
def test_a_stop_and_the_cap_in_one_run_end_with_the_stop(http, k):
    """Case 12: at the cap's own token it is still a stop; one token less is the cap, which holds nothing back."""
    plain, _ = ask(http, temperature=0.0)
    ids = plain["token_ids"]
    stop = next(token for token in ids[8:] if token not in ids[:8])
    at = ids.index(stop)
    for cap in (at + 1, at + 2, at + 5):
        choice, usage = ask(http, k, temperature=0.0, max_tokens=cap, stop_token_ids=[stop])
        assert (choice["finish_reason"], choice["token_ids"]) == ("stop", ids[: at + 1])
        assert usage["completion_tokens"] == at + 1
    choice, _ = ask(http, k, temperature=0.0, max_tokens=at, stop_token_ids=[stop])
    assert (choice["finish_reason"], choice["token_ids"]) == ("length", ids[:at])
    text = plain["text"][5:9]
    end = plain["text"].index(text) + len(text)
    for cap in range(1, 20):
        choice, _ = ask(http, k, temperature=0.0, max_tokens=cap, stop=text)
        whole, _ = ask(http, temperature=0.0, max_tokens=cap)
        stopped = len(whole["text"]) >= end
        assert choice["finish_reason"] == ("stop" if stopped else "length")
        assert choice["text"] == (plain["text"][: end - len(text)] if stopped else whole["text"])


def test_an_eos_accepted_in_the_middle_of_a_proposal_ends_the_text(http):
    """Cases 11 and 14: nothing follows, in the stream neither; it counts and has no text."""
    num_accepted = 0
    for seed in range(6):
        fields = {"ignore_eos": False, "logit_bias": {str(EOS): 2.5}, "seed": seed}
        plain, _ = ask(http, **fields)
        for k in KS:
            answer = http.post("/v1/completions", json=_body(k, fields)).json()
            (choice,), usage = answer["choices"], answer["usage"]
            assert (choice["text"], choice["token_ids"]) == (plain["text"], plain["token_ids"])
            assert choice["finish_reason"] == ("stop" if choice["token_ids"][-1] == EOS else "length")
            assert EOS not in choice["token_ids"][:-1]
            assert usage["completion_tokens"] == len(choice["token_ids"])
            assert "<|" not in choice["text"]
            num_accepted += answer["speculative"]["num_accepted_tokens"]
        texts, reasons = stream(http, 8, **fields)
        assert ("".join(texts), reasons) == (plain["text"], [plain["finish_reason"]])
    assert num_accepted > 0


def test_an_answer_goes_past_eos_where_it_is_to_be_ignored_or_comes_too_early(http):
    """Case 18: min_tokens counts tokens, not rounds; before it EOS is impossible, not merely unheard."""
    bias = {str(EOS): 100}
    for k in KS:
        ignored, _ = ask(http, k, logit_bias=bias, max_tokens=5)
        assert ignored["token_ids"] == [EOS] * 5
        choice, usage = ask(http, k, logit_bias=bias, ignore_eos=False, min_tokens=7)
        assert EOS not in choice["token_ids"][:7]
        assert choice["token_ids"][7:] == [EOS]
        assert (choice["finish_reason"], usage["completion_tokens"]) == ("stop", 8)


PARAMETERS = {
    "frequency_penalty": {"frequency_penalty": 1.5},
    "presence_penalty": {"presence_penalty": 1.5},
    "repetition_penalty": {"repetition_penalty": 1.4},
    "logit_bias": {"logit_bias": {"10": -100, "11": 4}},
    "top_k": {"top_k": 2, "temperature": 2.0},
    "top_p": {"top_p": 0.3, "temperature": 1.5},
    "min_p": {"min_p": 0.5, "temperature": 1.5},
    "temperature": {"temperature": 0.2},
}


@pytest.mark.parametrize("name", PARAMETERS)
@pytest.mark.parametrize("seed", [{"temperature": 0.0}, {"seed": 9}])
def test_a_parameter_changes_the_text_and_changes_it_alike_with_any_draft(http, name, seed):
    """Cases 17, 18 and 20."""
    fields = {**seed, **PARAMETERS[name]}
    if "temperature" in PARAMETERS[name] and "seed" not in seed:
        fields["seed"] = 3
    plain, _ = ask(http, **fields)
    default, _ = ask(http, **{"seed": fields.get("seed", ...), "temperature": seed.get("temperature", ...)})
    assert plain["token_ids"] != default["token_ids"]
    for k in KS:
        assert ask(http, k, **fields)[0]["token_ids"] == plain["token_ids"], k


def test_a_token_with_the_lowest_bias_appears_at_no_position(http):
    """Case 20: rejection sampling, where it could slip in as accepted, recovered or bonus token."""
    banned = [42, 29, 3, 14, 18, 7]
    for seed in range(4):
        fields = {"seed": seed, "logit_bias": dict.fromkeys(map(str, banned), -100), "max_tokens": 200}
        body = _body(4, fields)
        body["speculative"]["verification"] = "rejection"
        answer = http.post("/v1/completions", json=body).json()
        assert not set(banned) & set(answer["choices"][0]["token_ids"])
        assert answer["speculative"]["num_accepted_tokens"] > 0


@pytest.mark.parametrize("k", KS)
@pytest.mark.parametrize("num_prompt", [400, 500, 511])
def test_prompt_and_answer_may_fill_the_context_exactly(http, k, num_prompt):
    """Case 15: one token more is a 400 that tells the numbers; without max_tokens a chat takes the rest."""
    prompt, room = [3 + (5 * i) % 59 for i in range(num_prompt)], CONTEXT - num_prompt
    choice, usage = ask(http, k, prompt=prompt, max_tokens=room, temperature=0.0)
    assert (choice["finish_reason"], len(choice["token_ids"]), usage["total_tokens"]) == ("length", room, CONTEXT)
    error = refused(http, prompt=prompt, max_tokens=room + 1)
    assert (error["code"], error["param"]) == ("context_length_exceeded", "max_tokens")
    assert str(CONTEXT) in error["message"] and str(room) in error["message"]


def test_a_chat_without_max_tokens_may_use_the_rest_of_the_context(http):
    """Case 15."""
    messages = [{"role": "user", "content": "o" * 400}]
    choice, usage = ask(
        http, 4, path="/v1/chat/completions", prompt=..., max_tokens=..., messages=messages, temperature=0.0
    )
    assert (choice["finish_reason"], usage["total_tokens"]) == ("length", CONTEXT)


UNSUPPORTED = {
    "tools": [{"type": "function", "function": {"name": "f"}}],
    "response_format": {"type": "json_object"},
    "best_of": 2,
    "guided_json": {},
    "logits_processors": ["x"],
    "use_beam_search": True,
    "no_such_parameter": 1,
    "include_stop_str_in_output": True,
}


@pytest.mark.parametrize("name", UNSUPPORTED)
def test_what_would_change_the_output_and_is_not_done_is_refused_by_name(http, name):
    """Case 19: in chats and completions; a null is nothing."""
    messages = [{"role": "user", "content": "o"}]
    for path, fields in (
        ("/v1/completions", {}),
        ("/v1/chat/completions", {"prompt": ..., "messages": messages}),
    ):
        error = refused(http, path, **fields, **{name: UNSUPPORTED[name]})
        assert error["param"] == name
        assert name in error["message"]
        assert error["type"] == "invalid_request_error"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("temperature", 3), ("temperature", "hot"), ("top_p", -0.1), ("n", 0), ("n", 1000), ("max_tokens", -1),
        ("stop", ["a"] * 17), ("logit_bias", {"64": 1}), ("logprobs", 21), ("prompt", []), ("prompt", [64]),
        ("prompt", ""), ("min_tokens", 61), ("speculative", {"num_draft_tokens": 33}), ("seed", 1.5),
        ("stop_token_ids", [-1]), ("speculative", {"verification": "faith"}), ("stream_options", {}),
    ],
)  # fmt: skip
def test_an_invalid_value_is_refused_by_name_and_limit(http, name, value):
    error = refused(http, **{name: value})
    assert error["param"].split(".")[0] == name
    assert len(error["message"]) > len(name)


def test_rejection_under_a_seed_is_reproducible_in_law_and_match_in_text(http):
    """Cases 7 and 8: twenty seeds give many texts, one seed gives one."""
    texts = {ask(http, 4, seed=seed, max_tokens=12)[0]["text"] for seed in range(20)}
    assert len(texts) >= 18
    unseeded = {ask(http, 4, max_tokens=12)[0]["text"] for _ in range(20)}
    assert len(unseeded) >= 18
