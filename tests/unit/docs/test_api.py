"""docs/api.md names every parameter of the API with its bounds, every error, and a client that runs."""

import asyncio
import json
from collections import defaultdict

import grpc
import pytest

from forerun.rpc.status import code_of
from forerun.v1 import gateway_pb2
from gateway import servicer
from gateway.api import errors, neutral
from gateway.api.body_schema import BodySchema
from gateway.api.core import Core
from gateway.api.limits import Limits
from tests.support.byte_text import byte_model, byte_text
from tests.support.documents import blocks, names, read, tables
from tests.support.fake_coordinator import FakeCoordinator, hashed

TEXT = read("api.md")
SCHEMA = BodySchema(byte_model(), Limits())
SCHEMAS = {"chat": SCHEMA.chat(), "completions": SCHEMA.completion()}
TOKENIZER = {"tokenize": SCHEMA.tokenize(), "detokenize": SCHEMA.detokenize()}
WHERE = {"both": {"chat", "completions"}, "tokenizer": set(TOKENIZER)}
WORDED = {"seed", "top_k", "max_tokens", "max_completion_tokens", "min_tokens"}  # bounds that are powers or a model's
BODIES = {errors.BodyTooLarge, errors.BodyTooSlow}  # of HTTP alone


def rows(heading):
    (found,) = [each for above, each in tables(TEXT) if above.startswith(heading) and "parameter" in each[0]]
    return found


def endpoints(row):
    """The endpoints that a row speaks of."""
    return set().union(*(WHERE.get(word, {word}) for word in row["where"].split(", ")))


def told(heading):
    """Endpoint → parameters of the table under a heading."""
    found = defaultdict(set)
    for row in rows(heading):
        for endpoint in endpoints(row):
            found[endpoint] |= set(names(row["parameter"]))
    return found


def test_the_parameters_of_each_endpoint_are_those_of_its_schema():
    plain, passing = told("Parameters"), told("Known elsewhere")
    tolerated = {"chat": neutral.CHAT, "completions": neutral.COMPLETION}
    for endpoint, schema in SCHEMAS.items():
        assert passing[endpoint] == set(tolerated[endpoint])
        assert plain[endpoint] == set(schema["properties"]) - passing[endpoint] - neutral.HINTS
    messages = {"prompt", "messages"}  # told where they are at home
    for endpoint, schema in TOKENIZER.items():
        assert plain[endpoint] == set(schema["properties"]) - messages


def test_hints_are_named():
    section = TEXT.partition("### Hints")[2].partition("###")[0]
    assert set(names(section)) == neutral.HINTS


def test_the_values_that_are_said_to_pass_do_and_others_do_not():
    for row in rows("Known elsewhere"):
        values = [json.loads(value) for value in names(row["values that pass"]) if value != "n"]
        for endpoint in endpoints(row):
            table = neutral.CHAT if endpoint == "chat" else neutral.COMPLETION
            for name in names(row["parameter"]):
                assert all(table[name](value) for value in values), name
                tried = [True, False, 0, 1, 2, "", "none", "auto", "medium", "high", [], ["text"], [1], {}, {"a": 1}]
                assert not [value for value in tried if table[name](value) and value not in values], name


@pytest.mark.parametrize("endpoint", SCHEMAS)
def test_the_fields_inside_parameters_are_named(endpoint):
    properties = SCHEMAS[endpoint]["properties"]
    extension = {name for row in rows("The extension") for name in names(row["parameter"])}
    assert extension == set(properties["speculative"]["properties"])
    (options,) = [row for row in rows("Parameters") if names(row["parameter"]) == ["stream_options"]]
    assert set(properties["stream_options"]["properties"]) <= set(names(options["meaning"]))
    if endpoint == "chat":
        (message,) = [each for _, each in tables(TEXT) if "of a message" in each[0]]
        inside = {name for row in message for name in names(row["of a message"])}
        assert inside == set(properties["messages"]["items"]["properties"])


def bounded(schema, table):
    for row in table:
        for name in names(row["parameter"]):
            if name in schema["properties"] and name not in WORDED:
                yield name, row, schema["properties"][name]


@pytest.mark.parametrize("endpoint", SCHEMAS)
def test_defaults_and_bounds_are_those_of_the_schema(endpoint):
    schema = SCHEMAS[endpoint]
    mine = [row for row in rows("Parameters") if endpoint in endpoints(row)]
    pairs = [*bounded(schema, mine), *bounded(schema["properties"]["speculative"], rows("The extension"))]
    assert len(pairs) > 20
    for name, row, each in pairs:
        if "minimum" in each:
            assert row["range"] == f"{each['minimum']:g} to {each['maximum']:g}", name
        if "default" in each:
            assert row["default"] == json.dumps(each["default"]), name
        if "object" not in each.get("type", ()) and "string" not in each.get("type", ()) and "type" in each:
            assert row["type"] in each["type"] or row["type"] == {"array": "list"}.get(each["type"][0], "list"), name


def test_every_error_stands_in_the_table_with_its_grpc_code():
    (table,) = [each for above, each in tables(TEXT) if above == "Errors"]
    listed = {(row["status"], *names(row["type"]), row["code"].strip("`")): row["gRPC"].strip("`") for row in table}
    faces = dict(errors._FACES) | {RuntimeError: errors._INTERNAL}
    known = {(str(face.http), face.type, face.code or "null"): kind for kind, face in faces.items()}
    assert listed.keys() == known.keys()
    for key, kind in known.items():
        if kind not in BODIES:
            assert listed[key] == code_of(kind("told")).name


def test_what_is_said_to_be_told_of_usage_is_what_an_answer_holds():
    (example,) = blocks(TEXT, "json")
    answer = json.loads(example)
    told_of = {name for _, each in tables(TEXT) if "field" in each[0] for row in each for name in names(row["field"])}
    inside = {*answer["usage"], *answer["usage"]["prompt_tokens_details"], *answer["speculative"]}
    assert told_of == inside - {"total_tokens", "prompt_tokens_details"}


def test_fields_that_grpc_is_said_to_lack_it_lacks():
    fields = set(gateway_pb2.GenerateRequest.DESCRIPTOR.fields_by_name)
    assert {"text", "tokens", "chat"} <= fields
    assert set(gateway_pb2.ChatMessage.DESCRIPTOR.fields_by_name) == {"role", "content"}
    prompts = {"text", "tokens", "chat"}
    assert fields - prompts < set().union(*(schema["properties"] for schema in SCHEMAS.values()))
    assert not fields & (neutral.HINTS | {"max_completion_tokens", "add_special_tokens", "chat_template_kwargs"})


async def test_the_client_in_the_document_runs(capsys):
    (snippet,) = blocks(TEXT, "python")
    text = byte_text()
    server = grpc.aio.server()
    servicer.add_to(server, Core(FakeCoordinator(hashed(90), run_len=4), text, byte_model()))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        await asyncio.to_thread(exec, snippet.replace("50050", str(port)), {})
    finally:
        await server.stop(0)
    assert capsys.readouterr().out.endswith("\n40 tokens in 10 rounds with a draft\n")
