"""OpenAI's own client, plain and async, against draft, target and gateway as three processes."""

import re
import urllib.request

import openai
import pytest

from tests.support import reference
from tests.support.ports import free_ports

PROMPT = "the stone is another "
MESSAGES = [{"role": "user", "content": PROMPT}]
MODEL = "tiny-target"
NUM_TOKENS = 40
KS = (0, None, 1, 4, 8)


@pytest.fixture(scope="session")
def metrics_port():
    """Where the target tells what it counts."""
    return free_ports(1)[0]


@pytest.fixture(scope="session")
def gateway(fleet, tiny_pair, tiny_draft, metrics_port):
    """A gateway over the tiny pair."""
    target = fleet.target(tiny_pair.target, "--metrics-port", metrics_port)
    return fleet.gateway(tiny_pair.target, target.address, (tiny_draft.address,))


@pytest.fixture
def client(gateway):
    with openai.OpenAI(base_url=f"{gateway.url}/v1", api_key="one", max_retries=0) as client:
        yield client


@pytest.fixture
async def async_client(gateway):
    async with openai.AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key="one", max_retries=0) as client:
        yield client


def extra(k=None, **more):
    """extra_body for K tokens of draft: None leaves it to the server, 0 is no draft at all."""
    speculative = {"enabled": k != 0, **({"num_draft_tokens": k} if k else {})}
    return {"ignore_eos": True, "return_token_ids": True, "speculative": speculative, **more}


def chat(client, k=None, more=(), **fields):
    request = {"model": MODEL, "messages": MESSAGES, "max_tokens": NUM_TOKENS, "seed": 7, **fields}
    return client.chat.completions.create(**request, extra_body=extra(k, **dict(more)))


def complete(client, prompt, k=None, more=(), **fields):
    request = {"model": MODEL, "prompt": prompt, "max_tokens": NUM_TOKENS, "seed": 7, **fields}
    return client.completions.create(**request, extra_body=extra(k, **dict(more)))


@pytest.mark.parametrize("fields", [{"temperature": 0.0}, {"seed": 3}, {"seed": 4, "temperature": 0.7, "top_p": 0.9}])
def test_a_seed_gives_one_text_whatever_is_drafted(client, fields):
    """Case 7: five times, with speculation off, adaptive, and with three fixed K; case 14."""
    answers = [chat(client, k, **fields) for k in KS]
    assert {answer.choices[0].message.content for answer in answers} == {answers[0].choices[0].message.content}
    assert [answer.speculative["num_drafts"] > 0 for answer in answers if answer is not answers[1]] == [
        False, True, True, True,
    ]  # fmt: skip
    for answer in answers:
        assert answer.choices[0].finish_reason == "length"
        assert answer.usage.completion_tokens == len(answer.choices[0].token_ids) == NUM_TOKENS
        assert answer.usage.total_tokens == answer.usage.prompt_tokens + NUM_TOKENS
        assert answer.usage.prompt_tokens == len(answer.prompt_token_ids)


@pytest.mark.parametrize("k", KS)
async def test_streamed_deltas_joined_are_the_body(async_client, k):
    """Case 23, and 24 where a character's bytes are tokens; usage comes last and once."""
    whole = await chat(async_client, k, seed=11)
    stream = await chat(async_client, k, seed=11, stream=True, stream_options={"include_usage": True})
    chunks = [chunk async for chunk in stream]
    told = [chunk.choices[0] for chunk in chunks[:-1]]
    assert told[0].delta.role == "assistant"
    assert "".join(choice.delta.content or "" for choice in told) == whole.choices[0].message.content
    assert [token for choice in told for token in choice.token_ids] == whole.choices[0].token_ids
    assert [choice.finish_reason for choice in told if choice.finish_reason] == ["length"]
    assert chunks[-1].choices == []
    assert chunks[-1].usage.completion_tokens == whole.usage.completion_tokens
    assert all(chunk.usage is None for chunk in chunks[:-1])
    if k:
        assert chunks[-1].speculative["num_accepted_tokens"] > 0


def test_bytes_of_characters_span_tokens_and_nothing_is_lost(client):
    """Case 24: the bias makes the two bytes of "é" likely, so that text is full of them, whole and broken."""
    bias = {"32": 6.0, "33": 6.0}
    whole = complete(client, PROMPT, 4, logit_bias=bias, seed=5, max_tokens=150)
    pieces = [
        chunk.choices[0].text
        for chunk in complete(client, PROMPT, 4, logit_bias=bias, seed=5, max_tokens=150, stream=True)
    ]
    assert "".join(pieces) == whole.choices[0].text
    assert whole.choices[0].text.count("é") > 0


@pytest.mark.parametrize("k", [0, 3, None])
async def test_four_choices_under_one_seed_differ_and_the_prompt_is_prefilled_once(async_client, metrics_port, k):
    """Cases 14 and 21: the siblings find the first choice's prompt in the target's prefix cache."""
    prompt = [3 + (7 * i + (k or 0)) % 59 for i in range(200)]
    before = _cache_hits(metrics_port)
    answer = await complete(async_client, prompt, k, n=4, seed=1, more={"cache_salt": f"n-{k}"})
    texts = [choice.text for choice in answer.choices]
    assert sorted(choice.index for choice in answer.choices) == [0, 1, 2, 3]
    assert len(set(texts)) == 4
    assert answer.usage.prompt_tokens == 200
    assert answer.usage.completion_tokens == 4 * NUM_TOKENS
    assert answer.usage.prompt_tokens_details.cached_tokens == 0
    assert _cache_hits(metrics_port) - before >= 3 * 176
    again = await complete(async_client, prompt, 2, n=4, seed=1)
    assert [choice.text for choice in again.choices] == texts


def test_a_stream_of_choices_joins_to_the_same_texts(client):
    """Cases 21 and 23."""
    whole = chat(client, 3, n=3)
    texts = ["", "", ""]
    for chunk in chat(client, 3, n=3, stream=True):
        texts[chunk.choices[0].index] += chunk.choices[0].delta.content or ""
    assert texts == [choice.message.content for choice in sorted(whole.choices, key=lambda choice: choice.index)]


def test_a_prompt_may_be_text_ids_or_lists_of_either(client, gateway):
    """Greedy: the same text for every way to say the same."""
    ids = complete(client, PROMPT, temperature=0.0).choices[0].prompt_token_ids
    (expected,) = _texts(complete(client, PROMPT, temperature=0.0))
    assert _texts(complete(client, ids, temperature=0.0)) == [expected]
    other = _texts(complete(client, "no ", temperature=0.0))
    assert _texts(complete(client, ["no ", PROMPT], temperature=0.0)) == [*other, expected]
    assert _texts(complete(client, [ids, ids[:5]], temperature=0.0))[0] == expected
    both = complete(client, ["no ", PROMPT], temperature=0.0, n=2, max_tokens=5)
    assert [choice.index for choice in both.choices] == [0, 1, 2, 3]
    assert both.usage.completion_tokens == 20


@pytest.mark.parametrize("k", [0, 4])
def test_logprobs_are_transformers_own_in_both_shapes(client, tiny_pair, k):
    """Case 22: the raw log-softmax of the target within 1e-3, whatever the temperature and the penalties."""
    fields = {"temperature": 0.8, "presence_penalty": 0.5, "seed": 2}
    chatted = chat(client, k, logprobs=True, top_logprobs=3, **fields)
    ids = chatted.choices[0].token_ids
    rows = reference.log_softmax(tiny_pair.target, chatted.prompt_token_ids, ids)
    for entry, token, row in zip(chatted.choices[0].logprobs.content, ids, rows, strict=True):
        assert entry.logprob == pytest.approx(row[token], abs=1e-3)
        assert [top.logprob for top in entry.top_logprobs] == pytest.approx(sorted(row)[:-4:-1], abs=1e-3)
    completed = complete(client, chatted.prompt_token_ids, k, logprobs=2, **fields)
    assert completed.choices[0].token_ids == ids
    assert completed.choices[0].logprobs.token_logprobs == pytest.approx(
        [entry.logprob for entry in chatted.choices[0].logprobs.content], abs=1e-3
    )


@pytest.mark.parametrize("max_tokens", [0, 6])
def test_echo_scores_the_prompt(client, tiny_pair, max_tokens):
    """Case 22: the first token has no law; every other one has transformers' own."""
    answer = complete(client, PROMPT, 2, echo=True, logprobs=1, max_tokens=max_tokens, temperature=0.0)
    choice = answer.choices[0]
    assert choice.text.startswith(PROMPT)
    assert (choice.text == PROMPT) == (max_tokens == 0)
    ids = [*choice.prompt_token_ids, *choice.token_ids]
    rows = reference.log_softmax(tiny_pair.target, ids[:1], ids[1:])
    assert choice.logprobs.token_logprobs[0] is None
    expected = [row[token] for row, token in zip(rows, ids[1:], strict=True)]
    assert choice.logprobs.token_logprobs[1:] == pytest.approx(expected, abs=1e-3)
    assert answer.usage.completion_tokens == max_tokens
    assert choice.finish_reason == "length"


def test_a_second_turn_prefills_only_what_is_new_and_a_salt_sees_nothing_of_it(client):
    """cached_tokens comes close to the first turn's length, in blocks; another salt or key has 0."""
    messages = [{"role": "user", "content": "tell me of the other stone. " * 8}]
    first = chat(client, messages=messages, max_tokens=60)
    turn = [*messages, {"role": "assistant", "content": first.choices[0].message.content}]
    turn += [{"role": "user", "content": "and then"}]
    second = chat(client, messages=turn)
    assert first.usage.prompt_tokens_details.cached_tokens == 0
    assert second.usage.prompt_tokens_details.cached_tokens > first.usage.prompt_tokens - 16
    salted = chat(client, messages=turn, more={"cache_salt": "mine"})
    assert salted.usage.prompt_tokens_details.cached_tokens == 0
    assert salted.choices[0].message.content == second.choices[0].message.content
    stranger = chat(client.with_options(api_key="another"), messages=turn)
    assert stranger.usage.prompt_tokens_details.cached_tokens == 0
    assert chat(client, messages=turn, more={"cache_salt": "mine"}).usage.prompt_tokens_details.cached_tokens > 0


def test_models_are_listed_and_an_unknown_one_is_not_found(client):
    assert [model.id for model in client.models.list()] == [MODEL]
    assert client.models.retrieve(MODEL).max_model_len == 512
    with pytest.raises(openai.NotFoundError, match="gpt-9"):
        client.chat.completions.create(model="gpt-9", messages=MESSAGES)


def test_hints_and_explicit_defaults_change_nothing(client):
    expected = chat(client).choices[0].message.content
    answer = chat(
        client, user="u", metadata={"a": "b"}, store=False, service_tier="auto", response_format={"type": "text"},
        tools=[], frequency_penalty=0.0, presence_penalty=0.0, top_p=1.0, temperature=1.0, logit_bias={}, n=1,
        more={"top_k": -1, "min_p": 0.0, "repetition_penalty": 1.0, "stop_token_ids": [], "min_tokens": 0},
    )  # fmt: skip
    assert answer.choices[0].message.content == expected


def _texts(answer):
    return [choice.text for choice in sorted(answer.choices, key=lambda choice: choice.index)]


def _cache_hits(port):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as scrape:
        return float(re.search(r"^forerun_prefix_cache_hits_total (\S+)", scrape.read().decode(), re.M)[1])
