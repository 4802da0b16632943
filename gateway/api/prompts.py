"""The `prompt` and `messages` of a request → ids, with their room in the context."""

from collections.abc import Mapping, Sequence
from typing import Any

from forerun.errors import InvalidRequest
from gateway.api.errors import ContextLengthExceeded, Unsupported
from gateway.api.fields import Fields
from gateway.api.job import Prompt
from gateway.api.limits import Limits, ModelInfo
from gateway.api.sampling import token_id
from gateway.text import Text

ROLES = ("system", "developer", "user", "assistant")
EMPTY_FIELDS = ("refusal", "audio", "function_call", "tool_calls", "annotations", "tool_call_id", "reasoning_content")
_RESERVED = ("messages", "add_generation_prompt", "tools", "documents")


class Prompts:
    """Turns what clients write into prompts that fit the model."""

    def __init__(self, text: Text, model: ModelInfo, limits: Limits) -> None:
        self._text = text
        self._model = model
        self._limits = limits

    def chat_ids(self, fields: Fields, given: Any) -> list[int]:
        """Takes the template's options from `fields`; returns the ids of the rendered `given` messages."""
        messages = read_messages(given, self._limits)
        add_generation_prompt = fields.boolean("add_generation_prompt", True)
        variables = fields.raw("chat_template_kwargs") or {}
        if not isinstance(variables, dict) or any(name in variables for name in _RESERVED):
            raise fields.invalid("chat_template_kwargs", f"must be an object without {', '.join(_RESERVED)}")
        rendered = self._text.render_chat(messages, add_generation_prompt, variables)
        return self._encode(rendered, "messages", add_special_tokens=False)

    def text_ids(self, value: Any, add_special_tokens: bool) -> list[int]:
        """Returns the ids of one text."""
        if not isinstance(value, str):
            raise InvalidRequest("prompt must be a string", "prompt")
        return self._encode(value, "prompt", add_special_tokens)

    def completion_ids(self, value: Any, add_special_tokens: bool = True) -> list[tuple[list[int], str | None]]:
        """Returns (ids, text or None where ids were given) of every prompt in OpenAI's four forms."""
        if isinstance(value, str):
            return [self._one(value, add_special_tokens)]
        if not isinstance(value, list) or not value:
            raise InvalidRequest("prompt must be a string, a list of strings, of ids, or of lists of ids", "prompt")
        if isinstance(value[0], int):
            return [self._one(value, add_special_tokens)]
        if len(value) > self._limits.choices:
            raise InvalidRequest(f"prompt holds {len(value)} prompts, more than {self._limits.choices}", "prompt")
        return [self._one(prompt, add_special_tokens) for prompt in value]

    def fit(self, ids: Sequence[int], max_tokens: int | None, default: int | None, param: str) -> Prompt:
        """Returns the prompt with its max_tokens; default None is the rest of the context.

        Raises ContextLengthExceeded, naming the numbers, where the model's context is too short.
        """
        limit, num_prompt = self._model.max_model_len, len(ids)
        if num_prompt == 0:
            raise InvalidRequest(f"{param} is empty; the model needs at least one token", param)
        room = limit - num_prompt
        if num_prompt > self._limits.prompt_tokens:
            raise ContextLengthExceeded(_too_long(num_prompt, self._limits.prompt_tokens), param)
        if room < 0 or (room == 0 and max_tokens is None):
            raise ContextLengthExceeded(_too_long(num_prompt, limit), param)
        if max_tokens is None:
            max_tokens = room if default is None else min(default, room)
        if max_tokens > room:
            told = f"the prompt has {num_prompt} tokens and max_tokens is {max_tokens}, together more than the {limit}"
            raise ContextLengthExceeded(f"{told} tokens of this model's context; ask for at most {room}", "max_tokens")
        return Prompt(tuple(ids), max_tokens)

    def _one(self, value: Any, add_special_tokens: bool) -> tuple[list[int], str | None]:
        if isinstance(value, str):
            return self._encode(value, "prompt", add_special_tokens), value
        if not isinstance(value, list):
            raise InvalidRequest("prompt must be a string, a list of strings, of ids, or of lists of ids", "prompt")
        if len(value) > self._model.max_model_len:
            raise ContextLengthExceeded(_too_long(len(value), self._model.max_model_len), "prompt")
        if any(isinstance(item, str) for item in value):
            raise InvalidRequest("prompt mixes strings and ids in one list", "prompt")
        return [token_id(item, self._model, "prompt") for item in value], None

    def _encode(self, text: str, param: str, add_special_tokens: bool) -> list[int]:
        """Refuses a text that cannot fit before it costs the time to split it."""
        at_least = len(text) // self._text.longest_token
        if at_least > self._model.max_model_len:
            raise ContextLengthExceeded("at least " + _too_long(at_least, self._model.max_model_len), param)
        try:
            return self._text.encode(text, add_special_tokens)
        except InvalidRequest as error:
            raise InvalidRequest(f"{param}: {error}", param) from error


def read_messages(value: Any, limits: Limits) -> list[dict[str, Any]]:
    """Returns role, content and name of every message, content parts joined. Raises InvalidRequest."""
    if not isinstance(value, list) or not value or len(value) > limits.messages:
        raise InvalidRequest(f"messages must be a list of 1 to {limits.messages} messages", "messages")
    return [_message(message, f"messages.{i}") for i, message in enumerate(value)]


def _message(value: Any, param: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InvalidRequest(f"{param} must be an object with role and content", param)
    fields = Fields(value, f"{param}.")
    role = fields.raw("role")
    if role not in ROLES:
        raise InvalidRequest(f"{param}.role must be one of {', '.join(ROLES)}", f"{param}.role")
    message = {
        "role": "system" if role == "developer" else role,
        "content": _content(fields.raw("content"), f"{param}.content"),
    }
    if name := fields.string("name", 256):
        message["name"] = name
    for unsupported in EMPTY_FIELDS:
        if fields.raw(unsupported):
            raise Unsupported(f"{param}.{unsupported} is not supported here", f"{param}.{unsupported}")
    fields.finish()
    return message


def _content(value: Any, param: str) -> str:
    if isinstance(value, str):
        return value
    if not isinstance(value, list) or not value:
        raise InvalidRequest(f"{param} must be a string or a list of text parts", param)
    return "".join(_part(part, f"{param}.{i}") for i, part in enumerate(value))


def _part(part: Mapping[str, Any], param: str) -> str:
    if isinstance(part, dict) and part.get("type") == "text" and isinstance(part.get("text"), str):
        return str(part["text"])
    raise InvalidRequest(f'{param} must be {{"type": "text", "text": …}}; other kinds are not supported', param)


def _too_long(num_tokens: int, limit: int) -> str:
    return f"{num_tokens} prompt tokens are too many: this model's context holds {limit}, the answer included"
