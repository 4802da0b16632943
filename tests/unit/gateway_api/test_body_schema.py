"""The published schemas say what the readers accept: the same names, bounds and defaults."""

import dataclasses

import httpx
import pytest

from forerun.errors import InvalidRequest
from gateway.api.body_schema import BodySchema
from gateway.api.core import Core
from gateway.api.fields import Fields
from gateway.api.limits import Limits
from gateway.api.operations import OperationEndpoints
from gateway.api.requests import Requests
from gateway.app import create_app
from tests.support.byte_text import byte_model, byte_text
from tests.support.fake_coordinator import FakeCoordinator, hashed

MODEL, LIMITS, TEXT = byte_model(), Limits(), byte_text()
REQUESTS, SCHEMA = Requests(TEXT, MODEL, LIMITS), BodySchema(MODEL, LIMITS)
CHAT = {"messages": [{"role": "user", "content": "a"}]}
COMPLETION = {"prompt": "a"}
READERS = {
    "chat": (REQUESTS.chat, SCHEMA.chat(), CHAT),
    "completion": (REQUESTS.completion, SCHEMA.completion(), COMPLETION),
}
COMPANIONS = {"top_logprobs": {"logprobs": True}, "stream_options": {"stream": True}}
OLDER_NAMES = {"max_completion_tokens": "max_tokens"}
UP_TO_THE_PROMPT = {"max_tokens", "max_completion_tokens", "min_tokens", "messages"}  # which leaves less room than that


class Noting(Fields):
    """Fields that remember which names were asked for."""

    asked: set[str] = set()

    def raw(self, name):
        Noting.asked.add(self._prefix + name)
        return super().raw(name)

    def inner(self, name):
        return Noting(super().inner(name)._left, f"{name}.")


def names(schema):
    return set(schema["properties"])


@pytest.mark.parametrize("endpoint", READERS)
def test_a_schema_names_what_its_reader_takes_and_nothing_else(endpoint, monkeypatch):
    for module in ("requests", "prompts"):
        monkeypatch.setattr(f"gateway.api.{module}.Fields", Noting)
    read, schema, body = READERS[endpoint]
    Noting.asked = set()
    read({**body, "speculative": {}, "stream": True, "stream_options": {}})
    top = {name for name in Noting.asked if "." not in name}
    assert names(schema) == top
    assert schema["additionalProperties"] is False
    for outer in ("speculative", "stream_options"):
        inner = {name.partition(".")[2] for name in Noting.asked if name.startswith(f"{outer}.")}
        assert names(schema["properties"][outer]) == inner
    if endpoint == "chat":
        inner = {name.rpartition(".")[2] for name in Noting.asked if name.startswith("messages.0.")}
        assert names(schema["properties"]["messages"]["items"]) == inner


def bounded(properties, wrap=lambda name, value: {name: value}):
    for name, schema in properties.items():
        if "object" in schema.get("type", ()) and "properties" in schema:
            yield from bounded(schema["properties"], lambda inner, value, outer=name: {outer: {inner: value}})
        for value, fits in _edges(schema):
            yield name, wrap(name, value), fits


def _edges(schema):
    """(value, whether the schema allows it) on either side of each bound."""
    step = 1 if "integer" in schema.get("type", ()) else 0.5
    if "minimum" in schema:
        yield from ((schema["minimum"], True), (schema["minimum"] - step, False))
    if "maximum" in schema:
        yield from ((schema["maximum"], True), (schema["maximum"] + step, False))
    if "maxLength" in schema:
        yield from (("x" * schema["maxLength"], True), ("x" * (schema["maxLength"] + 1), False))
    if "maxProperties" in schema:
        yield {str(i): 1 for i in range(schema["maxProperties"] + 1)}, False
    if "maxItems" in schema:
        item = (
            CHAT["messages"][0] if "object" in schema["items"].get("type", ()) else schema["items"].get("maximum", "x")
        )
        yield from (([item] * schema["maxItems"], True), ([item] * (schema["maxItems"] + 1), False))
    for value in schema.get("enum", ()):
        yield value, True
    if "enum" in schema:
        yield "nonsense", False
    for kind in schema.get("anyOf", ()):
        yield from _edges(kind)
    if "null" in schema.get("type", ()):
        yield None, True


EDGES = [
    (endpoint, name, given, fits)
    for endpoint, (_, schema, _) in READERS.items()
    for name, given, fits in bounded(schema["properties"])
]


@pytest.mark.parametrize(
    ("endpoint", "name", "given", "fits"), EDGES, ids=[f"{e} {n} {str(g)[:40]} {f}" for e, n, g, f in EDGES]
)
def test_a_reader_takes_what_lies_on_a_schemas_bounds_and_refuses_what_lies_beyond(endpoint, name, given, fits):
    read, _, body = READERS[endpoint]
    body = {**body, **COMPANIONS.get(next(iter(given)), {}), **given}
    if not fits:
        with pytest.raises(InvalidRequest) as refused:
            read(body)
        assert any(each in refused.value.param for each in (name, OLDER_NAMES.get(name, name)))
    elif not (name in UP_TO_THE_PROMPT and given[name]):
        read(body)


@pytest.mark.parametrize("endpoint", READERS)
def test_a_default_is_what_absence_means(endpoint):
    read, schema, body = READERS[endpoint]
    absent = read({**body, "seed": 1})
    for name, each in schema["properties"].items():
        if "default" in each:
            assert read({**body, "seed": 1, name: each["default"]}) == absent, name
    defaults = {name for name, each in schema["properties"].items() if "default" in each}
    assert {"temperature", "top_p", "n", "stream", "presence_penalty"} <= defaults


@pytest.mark.parametrize("endpoint", READERS)
def test_what_is_required_is_refused_where_it_is_missing(endpoint):
    read, schema, body = READERS[endpoint]
    assert schema["required"] == list(body)
    with pytest.raises(InvalidRequest) as refused:
        read({})
    assert refused.value.param == schema["required"][0]


async def test_openapi_publishes_a_schema_for_every_body_and_docs_shows_it():
    app = create_app(Core(FakeCoordinator(hashed(8)), TEXT, MODEL))
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://gateway") as client:
        paths = (await client.get("/openapi.json")).json()["paths"]
        assert "/openapi.json" in (await client.get("/docs")).text
    published = {
        path: each["post"]["requestBody"]["content"]["application/json"]["schema"]
        for path, each in paths.items()
        if "post" in each
    }
    assert all(paths[path]["post"]["requestBody"]["required"] for path in published)
    assert {path: names(schema) for path, schema in published.items()} == {
        "/v1/chat/completions": names(SCHEMA.chat()),
        "/v1/completions": names(SCHEMA.completion()),
        "/tokenize": names(SCHEMA.tokenize()),
        "/detokenize": names(SCHEMA.detokenize()),
    }
    temperature = published["/v1/chat/completions"]["properties"]["temperature"]
    assert (temperature["minimum"], temperature["maximum"], temperature["default"]) == (0, 2, 1)
    assert published["/detokenize"]["properties"]["model"]["enum"] == [*MODEL.names, None]


@pytest.mark.parametrize("kind", ["tokenize", "detokenize"])
def test_the_schemas_of_the_tokenizer_name_what_is_taken(kind, monkeypatch):
    monkeypatch.setattr("gateway.api.operations.Fields", Noting)
    core = Core(FakeCoordinator(hashed(8)), TEXT, MODEL)
    endpoints = OperationEndpoints(core, str, tuple)
    Noting.asked = {"model"}
    for body in (b'{"prompt": "a"}', b'{"messages": [{"role": "user", "content": "a"}]}', b'{"tokens": []}'):
        try:
            getattr(endpoints, f"_{kind}")(endpoints._fields(body))
        except InvalidRequest:
            continue
    assert names(getattr(SCHEMA, kind)()) == Noting.asked


def test_a_published_limit_is_the_one_in_force():
    schema = BodySchema(MODEL, dataclasses.replace(LIMITS, choices=3)).chat()
    assert schema["properties"]["n"]["maximum"] == 3
