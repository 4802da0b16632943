"""The bodies that clients may send, as JSON Schema: what /openapi.json and /docs tell of the readers' rules."""

from collections.abc import Iterable
from typing import Any

from gateway.api import neutral
from gateway.api.limits import Limits, ModelInfo
from gateway.api.prompts import EMPTY_FIELDS, ROLES
from gateway.api.sampling import RULES, SEED_RANGE

Schema = dict[str, Any]

_BOOLEAN: Schema = {"type": "boolean"}
_FALSE: Schema = {"type": "boolean", "default": False}
_TRUE: Schema = {"type": "boolean", "default": True}
_HINT: Schema = {"description": "Accepted; changes nothing."}
_NEUTRAL: Schema = {"description": "Known to other servers; accepted here where its value changes nothing."}


class BodySchema:
    """Schemas for one model and one set of limits; nothing is validated by them. null stands for absent."""

    def __init__(self, model: ModelInfo, limits: Limits) -> None:
        self._model = model
        self._limits = limits

    def chat(self) -> Schema:
        """The body of /v1/chat/completions."""
        return _object(
            {
                "messages": self._messages(),
                **self._shared(1),
                **self._template(),
                "logprobs": _FALSE,
                "top_logprobs": {**_integer(0, self._limits.top_logprobs), "description": "Needs logprobs: true."},
                **_named(neutral.CHAT, _NEUTRAL),
            },
            required=["messages"],
        )

    def completion(self) -> Schema:
        """The body of /v1/completions."""
        return _object(
            {
                "prompt": self._prompt(),
                **self._shared(0),
                "echo": _FALSE,
                "logprobs": _integer(0, self._limits.top_logprobs),
                "add_special_tokens": _TRUE,
                **_named(neutral.COMPLETION, _NEUTRAL),
            },
            required=["prompt"],
        )

    def tokenize(self) -> Schema:
        """The body of /tokenize: either prompt or messages."""
        return _object(
            {
                "model": self._model_name(),
                "prompt": {"type": "string"},
                "messages": self._messages(),
                **self._template(),
                "add_special_tokens": _TRUE,
                "return_token_strs": _FALSE,
            }
        )

    def detokenize(self) -> Schema:
        """The body of /detokenize."""
        return _object({"model": self._model_name(), "tokens": self._ids()}, required=["tokens"])

    def _shared(self, fewest_tokens: int) -> Schema:
        limits, max_tokens = self._limits, _integer(fewest_tokens, self._model.max_model_len - 1)
        return {
            "model": self._model_name(),
            "n": _integer(1, limits.choices, 1),
            "max_tokens": max_tokens,
            "max_completion_tokens": max_tokens,
            "min_tokens": _integer(0, self._model.max_model_len, 0),
            "stream": _FALSE,
            "stream_options": _object({"include_usage": _FALSE, "include_obfuscation": _BOOLEAN}),
            **self._law(),
            **self._ending(),
            "speculative": self._speculative(),
            "cache_salt": {"type": "string", "maxLength": 256, "description": "Parts the prefix cache."},
            "return_token_ids": _FALSE,
            **_named(sorted(neutral.HINTS), _HINT),
        }

    def _law(self) -> Schema:
        bias = {"type": "number", "minimum": -100, "maximum": 100}
        return {
            "temperature": {**_number(0, 2, 1), "description": "0 is greedy."},
            "top_p": _number(0, 1, 1),
            "top_k": {**_integer(-1, 1 << 31, -1), "description": "-1 and 0 are off."},
            "min_p": _number(0, 1, 0),
            "presence_penalty": _number(-2, 2, 0),
            "frequency_penalty": _number(-2, 2, 0),
            "repetition_penalty": _number(0.01, 10, 1),
            "logit_bias": {
                "type": "object",
                "description": "Biases by token id.",
                "additionalProperties": bias,
                "maxProperties": self._limits.logit_bias,
            },
            "seed": _integer(*SEED_RANGE),
        }

    def _ending(self) -> Schema:
        stop = {"type": "string", "minLength": 1, "maxLength": self._limits.stop_len}
        return {
            "stop": {"anyOf": [stop, {"type": "array", "items": stop, "maxItems": self._limits.stops}]},
            "stop_token_ids": {**self._ids(), "maxItems": self._limits.stop_token_ids},
            "ignore_eos": _FALSE,
        }

    def _speculative(self) -> Schema:
        return _object(
            {
                "enabled": _TRUE,
                "num_draft_tokens": {
                    **_integer(0, self._limits.num_draft_tokens),
                    "description": "Fixes K; absent, the server chooses it round by round.",
                },
                "verification": {
                    "type": "string",
                    "enum": list(RULES),
                    "description": "Absent: coupled with a seed or at temperature 0, else rejection.",
                },
            }
        )

    def _template(self) -> Schema:
        return {"add_generation_prompt": _TRUE, "chat_template_kwargs": {"type": "object"}}

    def _messages(self) -> Schema:
        part = _object({"type": {"const": "text"}, "text": {"type": "string"}}, ["type", "text"])
        message = _object(
            {
                "role": {"type": "string", "enum": list(ROLES)},
                "content": {"anyOf": [{"type": "string"}, {"type": "array", "items": part, "minItems": 1}]},
                "name": {"type": "string", "maxLength": 256},
                **_named(EMPTY_FIELDS, {"description": "Accepted where it is empty."}),
            },
            required=["role", "content"],
        )
        return {"type": "array", "items": message, "minItems": 1, "maxItems": self._limits.messages}

    def _prompt(self) -> Schema:
        text, ids = {"type": "string", "minLength": 1}, {**self._ids(), "minItems": 1}
        several = {"type": "array", "items": {"anyOf": [text, ids]}, "minItems": 1, "maxItems": self._limits.choices}
        return {"anyOf": [text, ids, several], "description": "One text or list of token ids, or a list of either."}

    def _ids(self) -> Schema:
        return {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": self._model.vocab_size - 1}}

    def _model_name(self) -> Schema:
        return {"type": "string", "enum": list(self._model.names)}


def _object(properties: Schema, required: list[str] | None = None) -> Schema:
    """An object of these properties and no others; what is not required may be null."""
    required = required or []
    optional = {name: each if name in required else _or_null(each) for name, each in properties.items()}
    schema: Schema = {"type": "object", "properties": optional, "additionalProperties": False}
    return {**schema, "required": required} if required else schema


def _or_null(schema: Schema) -> Schema:
    if "anyOf" in schema:
        return {**schema, "anyOf": [*schema["anyOf"], {"type": "null"}]}
    if "enum" in schema:
        schema = {**schema, "enum": [*schema["enum"], None]}
    return {**schema, "type": [schema["type"], "null"]} if "type" in schema else schema


def _number(low: float, high: float, default: float) -> Schema:
    return {"type": "number", "minimum": low, "maximum": high, "default": default}


def _integer(low: int, high: int, default: int | None = None) -> Schema:
    schema: Schema = {"type": "integer", "minimum": low, "maximum": high}
    return schema if default is None else {**schema, "default": default}


def _named(names: Iterable[str], schema: Schema) -> Schema:
    return dict.fromkeys(names, schema)
