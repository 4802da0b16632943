"""The official client against a real server on a real socket; the coordinator is a fake."""

import asyncio

import httpx
import openai
import pytest

from forerun.errors import Overloaded, SequenceFault, ServiceUnavailable
from gateway.api.core import Core
from gateway.api.limits import Limits
from gateway.app import create_app
from tests.support.byte_text import byte_model, byte_text
from tests.support.fake_coordinator import FakeCoordinator, hashed
from tests.support.serving import serving

TEXT, MODEL = byte_text(), byte_model()
EOS = MODEL.eos_token_ids[0]
HI = [{"role": "user", "content": "hi"}]
MIXED = "你好 🤷🏽‍♂️ the hello world — done"


def saying(text, end=True, **more):
    """A coordinator that says `text`, then EOS."""
    return FakeCoordinator(lambda request: [*TEXT.encode(text), *([EOS] if end else [])], **more)


class Served:
    """A running server's client and what stands behind it."""

    def __init__(self, url, coordinator):
        self.url = url
        self.coordinator = coordinator
        self.client = openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="k", max_retries=0, timeout=20)
        self.http = httpx.AsyncClient(base_url=url, timeout=20)

    async def chat(self, **more):
        return await self.client.chat.completions.create(model="tiny", messages=HI, **more)

    async def complete(self, **more):
        return await self.client.completions.create(**{"model": "tiny", "prompt": "hi", **more})


@pytest.fixture
async def serve():
    """Starts servers; each is stopped at the end."""
    stack = []

    async def start(coordinator, **more):
        context = serving(create_app(Core(coordinator, TEXT, MODEL, **more)))
        served = Served(await context.__aenter__(), coordinator)
        stack.append((context, served))
        return served

    yield start
    for context, served in reversed(stack):
        await served.client.close()
        await served.http.aclose()
        await context.__aexit__(None, None, None)


async def test_a_chat_is_answered_whole(serve):
    served = await serve(saying(MIXED, run_len=3))
    answer = await served.chat()
    assert answer.choices[0].message.content == MIXED
    assert answer.choices[0].finish_reason == "stop"
    assert answer.object == "chat.completion"
    num_tokens = len(TEXT.encode(MIXED)) + 1
    assert answer.usage.completion_tokens == num_tokens
    assert answer.usage.prompt_tokens == len(served.coordinator.requests[0].prompt)
    assert answer.usage.prompt_tokens_details.cached_tokens == answer.usage.prompt_tokens // 2
    stats = answer.speculative
    assert stats["mean_acceptance_length"] == 1 + stats["num_accepted_tokens"] / stats["num_drafts"]
    assert stats["draft_acceptance_rate"] == stats["num_accepted_tokens"] / stats["num_draft_tokens"]


@pytest.mark.parametrize("run_len", [1, 2, 5, 100])
async def test_streamed_deltas_joined_are_the_whole_answer(serve, run_len):
    """Cases 23 and 24: with runs of any length, CJK and emoji included."""
    served = await serve(saying(MIXED, run_len=run_len))
    whole = (await served.chat()).choices[0].message.content
    chunks = [chunk async for chunk in await served.chat(stream=True, stream_options={"include_usage": True})]
    deltas = [choice.delta.content or "" for chunk in chunks for choice in chunk.choices]
    assert "".join(deltas) == whole == MIXED
    assert not any("\ufffd" in delta for delta in deltas)
    assert chunks[0].choices[0].delta.role == "assistant"
    assert chunks[-2].choices[0].finish_reason == "stop"
    assert chunks[-1].choices == []
    assert chunks[-1].usage.completion_tokens == len(TEXT.encode(MIXED)) + 1
    assert chunks[-1].speculative["num_drafts"] > 0
    assert all(chunk.usage is None for chunk in chunks[:-1])


async def test_a_stop_string_across_runs_never_reaches_the_client(serve):
    """Case 13, in the stream and not."""
    served = await serve(saying("before<STOP>after", run_len=3))
    whole = await served.chat(stop="<STOP>")
    assert (whole.choices[0].message.content, whole.choices[0].finish_reason) == ("before", "stop")
    chunks = [chunk async for chunk in await served.chat(stop=["<STOP>"], stream=True)]
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == "before"
    assert chunks[-1].choices[0].finish_reason == "stop"


async def test_the_cap_ends_with_length(serve):
    """Case 14: usage is the cap."""
    served = await serve(saying("abcdef", run_len=4))
    answer = await served.chat(max_completion_tokens=3)
    assert (answer.choices[0].message.content, answer.choices[0].finish_reason) == ("abc", "length")
    assert answer.usage.completion_tokens == 3


async def test_four_choices_differ_under_one_seed_and_wait_for_the_first_s_prefill(serve):
    """Case 21."""
    served = await serve(FakeCoordinator(hashed(256), run_len=2))
    answer = await served.chat(n=4, seed=7, max_tokens=20)
    texts = [choice.message.content for choice in answer.choices]
    assert len(set(texts)) == 4
    assert [choice.index for choice in answer.choices] == [0, 1, 2, 3]
    assert answer.usage.completion_tokens == 80
    assert answer.usage.prompt_tokens == len(served.coordinator.requests[0].prompt)
    assert answer.usage.prompt_tokens_details.cached_tokens == answer.usage.prompt_tokens // 2
    assert served.coordinator.starts[0] == (0, 0)
    assert all(num_first_tokens >= 1 for _, num_first_tokens in served.coordinator.starts[1:])
    again = await served.chat(n=4, seed=7, max_tokens=20)
    assert [choice.message.content for choice in again.choices] == texts


async def test_a_stream_of_choices_joins_to_the_same_texts(serve):
    """Cases 21 and 23."""
    served = await serve(FakeCoordinator(hashed(256), run_len=3))
    whole = await served.chat(n=3, seed=1, max_tokens=20)
    texts = [""] * 3
    async for chunk in await served.chat(n=3, seed=1, max_tokens=20, stream=True):
        texts[chunk.choices[0].index] += chunk.choices[0].delta.content or ""
    assert texts == [choice.message.content for choice in whole.choices]


async def test_completions_take_several_prompts(serve):
    served = await serve(saying("x"))
    answer = await served.complete(prompt=["a", "b"], n=2, echo=True)
    assert [choice.text for choice in answer.choices] == ["ax", "ax", "bx", "bx"]
    assert answer.usage.prompt_tokens == 2
    answer = await served.complete(prompt=[[97, 98], [99]])
    assert [choice.text for choice in answer.choices] == ["x", "x"]


async def test_echo_with_logprobs_and_no_tokens_scores_the_prompt(serve):
    served = await serve(saying("x"))
    answer = await served.complete(prompt="abc", max_tokens=0, echo=True, logprobs=2)
    choice, ids = answer.choices[0], TEXT.encode("abc")
    assert (choice.text, choice.finish_reason) == ("abc", "length")
    assert choice.logprobs.token_logprobs == [None, *(-token / 1000 for token in ids[1:])]
    assert choice.logprobs.tokens == ["a", "b", "c"]
    assert choice.logprobs.text_offset == [0, 1, 2]
    assert choice.logprobs.top_logprobs[0] is None
    assert len(choice.logprobs.top_logprobs[1]) == 3
    assert answer.usage.completion_tokens == 0


@pytest.mark.parametrize("late", [False, True])
async def test_a_streamed_echo_begins_with_the_prompt_whenever_its_laws_come(serve, late):
    served = await serve(saying("xy"))
    served.coordinator.late_prompt_logprobs = late
    whole = await served.complete(prompt="abc", echo=True, logprobs=1, n=2)
    assert [choice.text for choice in whole.choices] == ["abcxy", "abcxy"]
    texts, tokens = ["", ""], [[], []]
    async for chunk in await served.complete(prompt="abc", echo=True, logprobs=1, n=2, stream=True):
        texts[chunk.choices[0].index] += chunk.choices[0].text
        tokens[chunk.choices[0].index] += chunk.choices[0].logprobs.tokens
    assert texts == ["abcxy", "abcxy"]
    assert tokens == [choice.logprobs.tokens for choice in whole.choices]


async def test_more_choices_than_the_gateway_runs_are_told_to_come_back(serve):
    gate = asyncio.Event()
    served = await serve(saying("x", gate=gate), limits=Limits(running_choices=2, waiting_requests=0))
    first = asyncio.create_task(served.chat(n=2))
    await served.coordinator.has_started(1)
    with pytest.raises(openai.RateLimitError):
        await served.chat()
    gate.set()
    await first
    assert (await served.chat()).choices[0].message.content == "x"


async def test_a_body_without_declared_length_is_cut_off_at_the_limit(serve):
    served = await serve(saying("x"), limits=Limits(body_bytes=1000))

    async def endless():
        for _ in range(100):
            yield b"x" * 100

    response = await served.http.post("/v1/completions", content=endless())
    assert response.status_code == 413


async def test_logprobs_come_in_both_shapes_and_stream_alike(serve):
    """Case 22: none is missing."""
    served = await serve(saying("h你", run_len=2))
    chat = await served.chat(logprobs=True, top_logprobs=2)
    content = chat.choices[0].logprobs.content
    assert [entry.logprob for entry in content] == [-t / 1000 for t in [*TEXT.encode("h你"), EOS]]
    assert bytes(b for entry in content[:-1] for b in entry.bytes).decode() == "h你"
    assert all(len(entry.top_logprobs) == 2 for entry in content)
    chunks = [chunk async for chunk in await served.chat(logprobs=True, top_logprobs=2, stream=True)]
    assert [entry for chunk in chunks for entry in chunk.choices[0].logprobs.content] == content
    whole = (await served.complete(logprobs=1)).choices[0].logprobs
    chunks = [chunk async for chunk in await served.complete(logprobs=1, stream=True)]
    parts = [chunk.choices[0].logprobs for chunk in chunks]
    for name in ("tokens", "token_logprobs", "text_offset", "top_logprobs"):
        assert [x for part in parts for x in getattr(part, name)] == getattr(whole, name)


async def test_our_extensions_reach_the_coordinator(serve):
    served = await serve(saying("x"))
    extra = {"speculative": {"enabled": False, "num_draft_tokens": 3}, "top_k": 4, "min_p": 0.1, "ignore_eos": True}
    await served.chat(extra_body={**extra, "stop_token_ids": [EOS], "cache_salt": "s"})
    request = served.coordinator.requests[0]
    assert (request.speculation.enabled, request.speculation.num_draft_tokens) == (False, 3)
    assert (request.params.top_k, request.params.min_p) == (4, 0.1)
    assert request.cache_salt


async def test_token_ids_are_returned_where_asked_for(serve):
    served = await serve(saying("xy"))
    answer = await served.chat(extra_body={"return_token_ids": True})
    assert answer.choices[0].token_ids == [*TEXT.encode("xy"), EOS]
    assert answer.prompt_token_ids == list(served.coordinator.requests[0].prompt)


ERRORS = [
    (Overloaded("full"), openai.RateLimitError, 429),
    (ServiceUnavailable("gone"), openai.InternalServerError, 503),
    (SequenceFault("broken"), openai.InternalServerError, 500),
    (ValueError("secret inside"), openai.InternalServerError, 500),
]


@pytest.mark.parametrize(("failure", "kind", "status"), ERRORS, ids=lambda value: str(value)[:20])
@pytest.mark.parametrize("stream", [False, True])
async def test_a_failure_before_the_first_token_has_its_status(serve, failure, kind, status, stream):
    served = await serve(saying("x", failure=failure))
    with pytest.raises(kind) as caught:
        await served.chat(stream=stream)
    assert caught.value.status_code == status
    assert "secret" not in str(caught.value)
    if status == 429:
        assert int(caught.value.response.headers["retry-after"]) >= 1


async def test_a_failure_in_the_middle_is_an_error_event_and_the_end(serve):
    """Never silence: a target that dies ends the stream with an error."""
    served = await serve(saying("abcdef", failure=ServiceUnavailable("the target is gone"), fail_at=3))
    seen = []

    async def read():
        async for chunk in await served.chat(stream=True):
            seen.append(chunk.choices[0].delta.content or "")

    with pytest.raises(openai.APIError, match="the target is gone"):
        await read()
    assert "".join(seen) == "abc"
    body = {"messages": HI, "stream": True}
    raw = (await served.http.post("/v1/chat/completions", json=body)).text
    assert "[DONE]" not in raw
    assert '"code":"service_unavailable"' in raw.splitlines()[-2]


@pytest.mark.parametrize("stream", [False, True])
async def test_a_client_that_leaves_cancels_its_choices_at_once(serve, stream):
    """Case 25: and its neighbour goes on."""
    gate = asyncio.Event()
    served = await serve(saying("abc", gate=gate))
    neighbour = asyncio.create_task(served.chat())
    body = {"messages": HI, "stream": stream}
    leaving = asyncio.create_task(served.http.post("/v1/chat/completions", json=body))
    await served.coordinator.has_started(2)
    leaving.cancel()
    await asyncio.wait_for(served.coordinator.aborted.wait(), 1)
    gate.set()
    assert (await neighbour).choices[0].message.content == "abc"
    assert (served.coordinator.num_aborted, served.coordinator.num_running) == (1, 0)


async def test_one_failing_choice_aborts_its_siblings(serve):
    gate = asyncio.Event()
    gate.set()
    coordinator = FakeCoordinator(hashed(256), gate=gate)
    coordinator.failure, coordinator.fail_at = SequenceFault("broken"), 5
    served = await serve(coordinator)
    with pytest.raises(openai.InternalServerError):
        await served.chat(n=3, max_tokens=20)
    assert coordinator.num_running == 0


async def test_errors_have_openai_s_shape(serve):
    """Case 19, and unknown models, paths and malformed bodies."""
    served = await serve(saying("x"))
    with pytest.raises(openai.BadRequestError) as caught:
        await served.chat(tools=[{"type": "function", "function": {"name": "f"}}])
    assert (caught.value.param, caught.value.code) == ("tools", "unsupported_parameter")
    with pytest.raises(openai.NotFoundError) as caught:
        await served.client.chat.completions.create(model="gpt-9", messages=HI)
    assert caught.value.code == "model_not_found"
    for response, status in (
        (await served.http.post("/v1/chat/completions", content=b"{not json"), 400),
        (await served.http.post("/v1/chat/completions", content=b"x" * 10_000_001), 413),
        (await served.http.get("/nothing"), 404),
        (await served.http.get("/v1/chat/completions"), 405),
    ):
        assert response.status_code == status
        assert set(response.json()["error"]) == {"message", "type", "param", "code"}
    assert served.coordinator.requests == []


async def test_models_are_listed_and_retrieved(serve):
    served = await serve(saying("x"))
    assert [model.id async for model in served.client.models.list()] == ["tiny", "alias"]
    assert (await served.client.models.retrieve("tiny")).max_model_len == 256
    with pytest.raises(openai.NotFoundError):
        await served.client.models.retrieve("org/none")


async def test_tokenize_and_detokenize_are_inverse(serve):
    served = await serve(saying("x"))
    split = (await served.http.post("/tokenize", json={"prompt": MIXED, "return_token_strs": True})).json()
    assert split["tokens"] == TEXT.encode(MIXED)
    assert (split["count"], split["max_model_len"]) == (len(split["tokens"]), 256)
    joined = (await served.http.post("/detokenize", json={"tokens": split["tokens"]})).json()
    assert joined == {"prompt": MIXED}
    chat = (await served.http.post("/tokenize", json={"model": "tiny", "messages": HI})).json()
    await served.chat()
    assert chat["tokens"] == list(served.coordinator.requests[0].prompt)
    for path, body in (("/tokenize", {}), ("/tokenize", {"prompt": 3}), ("/detokenize", {"tokens": [9999]})):
        assert (await served.http.post(path, json=body)).status_code == 400


async def test_ready_probes_once_and_then_trusts_fresh_tokens(serve):
    served = await serve(saying("x"))
    assert (await served.http.get("/ready")).status_code == 200
    assert (await served.http.get("/ready")).status_code == 200
    assert len(served.coordinator.requests) == 1


async def test_ready_says_why_it_is_not(serve):
    served = await serve(saying("x", failure=ServiceUnavailable("no target answers")))
    response = await served.http.get("/ready")
    assert response.status_code == 503
    assert "no target answers" in response.json()["error"]["message"]


async def test_health_and_version_answer(serve):
    served = await serve(saying("x"))
    assert (await served.http.get("/health")).json() == {"status": "ok"}
    assert (await served.http.get("/version")).json()["version"]
    assert (await served.http.get("/metrics")).status_code == 200


async def test_the_plain_client_works_too(serve):
    served = await serve(saying(MIXED, run_len=2))

    def ask():
        with openai.OpenAI(base_url=f"{served.url}/v1", api_key="k", max_retries=0) as client:
            whole = client.chat.completions.create(model="tiny", messages=HI)
            with client.chat.completions.create(model="tiny", messages=HI, stream=True) as stream:
                deltas = [chunk.choices[0].delta.content or "" for chunk in stream]
            return whole.choices[0].message.content, "".join(deltas)

    assert await asyncio.to_thread(ask) == (MIXED, MIXED)
