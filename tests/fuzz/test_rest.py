"""REST under requests that fit its OpenAPI document and requests that do not: no 5xx, no hang, errors that say why."""

import json

import httpx
import pytest
import schemathesis
from hypothesis import given
from hypothesis import strategies as st

from tests.support.fuzzing import ANSWER_S, cases, count

POSTS = ("/v1/chat/completions", "/v1/completions", "/tokenize", "/detokenize")
GETS = ("/v1/models", "/v1/models/{name}", "/health", "/ready", "/metrics", "/version")
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)
VALID = {
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 4},
    "/v1/completions": {"prompt": "hi", "max_tokens": 4},
    "/tokenize": {"prompt": "hi"},
    "/detokenize": {"tokens": [5, 6]},
}


@pytest.fixture(scope="module")
def schema(fuzzed):
    return schemathesis.openapi.from_url(f"{fuzzed.url}/openapi.json")


@pytest.fixture(scope="module")
def http(fuzzed):
    with httpx.Client(base_url=fuzzed.url, timeout=ANSWER_S) as client:
        yield client


def check(status, content, told):
    """No failure of ours; a refusal is in OpenAI's shape, or HTTP's own."""
    assert status < 500, (status, content[:500], told)
    if status >= 400 and content:
        error = json.loads(content)["error"]
        assert error["message"] and error["type"], told


@pytest.mark.parametrize("mode", ["POSITIVE", "NEGATIVE"])
@pytest.mark.parametrize("path", POSTS)
def test_posts_made_up_from_the_document(schema, fuzzed, path, mode):
    operation = schema[path]["POST"]

    @cases(12)
    @given(case=operation.as_strategy(generation_mode=schemathesis.GenerationMode[mode]))
    def try_one(case):
        answer = case.call(base_url=fuzzed.url, timeout=ANSWER_S)
        count(f"REST {mode.lower()}", answer.status_code == 200)
        check(answer.status_code, answer.content, case.body)

    try_one()


@pytest.mark.parametrize("path", GETS)
def test_gets_made_up_from_the_document(schema, fuzzed, path):
    known = next(each for each in schema if each.split(":")[0].rstrip("}") == path.rstrip("}"))
    operation = schema[known]["GET"]

    @cases(3)
    @given(case=operation.as_strategy())
    def try_one(case):
        answer = case.call(base_url=fuzzed.url, timeout=ANSWER_S)
        count("REST gets", answer.status_code == 200)
        check(answer.status_code, b"" if known == "/metrics" else answer.content, known)

    try_one()


@pytest.mark.parametrize("path", POSTS)
def test_valid_bodies_with_a_field_or_two_that_hold_anything(http, schema, path):
    names = sorted(
        schema[path]["POST"].definition.raw["requestBody"]["content"]["application/json"]["schema"]["properties"]
    )

    @cases(25)
    @given(changes=st.dictionaries(st.sampled_from(names) | st.text(max_size=8), JSON, min_size=1, max_size=3))
    def try_one(changes):
        raw = json.dumps({**VALID[path], **changes}).encode()
        answer = http.post(path, content=raw, headers={"content-type": "application/json"})
        count("REST mutated", answer.status_code == 200)
        check(answer.status_code, b"" if answer.status_code == 200 else answer.content, changes)

    try_one()


@pytest.mark.parametrize("path", POSTS)
def test_bodies_that_are_anything(http, path):
    @cases(10)
    @given(raw=st.binary(max_size=200) | JSON.map(lambda value: json.dumps(value).encode()))
    def try_one(raw):
        answer = http.post(path, content=raw)
        count("REST raw", answer.status_code == 200)
        check(answer.status_code, answer.content, raw)

    try_one()
