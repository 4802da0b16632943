"""Parameters that may stand in a request as long as they change nothing."""

from collections.abc import Callable
from typing import Any

from gateway.api.errors import Unsupported
from gateway.api.fields import Fields

HINTS = frozenset(
    {"user", "metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key", "prompt_cache_retention"}
)


def _among(*values: Any) -> Callable[[Any], bool]:
    return lambda value: any(type(value) is type(known) and value == known for known in values)


def _plain_text(value: Any) -> bool:
    return bool(value == {"type": "text"})


_COMMON: dict[str, Callable[[Any], bool]] = {
    "best_of": _among(1),
    "use_beam_search": _among(False),
    "length_penalty": _among(1, 1.0),
    "include_stop_str_in_output": _among(False),
    "skip_special_tokens": _among(True),
    "spaces_between_special_tokens": _among(True),
    "response_format": _plain_text,
    "bad_words": _among([]),
    "allowed_token_ids": _among(),
    "logits_processors": _among([]),
    "guided_json": _among(),
    "guided_regex": _among(),
    "guided_choice": _among(),
    "guided_grammar": _among(),
    "structured_outputs": _among({}),
    "prompt_logprobs": _among(),
    "truncate_prompt_tokens": _among(),
    "priority": _among(0),
}
COMPLETION = {**_COMMON, "suffix": _among("")}
CHAT = {
    **_COMMON,
    "echo": _among(False),
    "continue_final_message": _among(False),
    "chat_template": _among(),
    "documents": _among([]),
    "tools": _among([]),
    "tool_choice": _among("none", "auto"),
    "parallel_tool_calls": _among(True, False),
    "functions": _among([]),
    "function_call": _among("none", "auto"),
    "audio": _among(),
    "modalities": _among(["text"]),
    "prediction": _among(),
    "reasoning_effort": _among("none"),
    "verbosity": _among("medium"),
    "web_search_options": _among(),
    "moderation": _among(),
}


def refuse_changes(fields: Fields, known: dict[str, Callable[[Any], bool]], n: int = 1) -> None:
    """Takes hints and neutral values. Raises Unsupported, naming the parameter, for what would change the output."""
    for name in HINTS:
        fields.raw(name)
    for name, is_neutral in known.items():
        value = fields.raw(name)
        if value is None or is_neutral(value) or (name == "best_of" and value == n):
            continue
        raise Unsupported(f"{name} is not supported here with this value; leave it out", name)
