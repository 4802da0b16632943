"""Renders a model's chat template as transformers does, inside Jinja's sandbox."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import jinja2
from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

from forerun.errors import InvalidRequest


class ChatTemplate:
    """One compiled template; `special_tokens` (bos_token, …) are visible in it by name."""

    def __init__(self, source: str, special_tokens: Mapping[str, str]) -> None:
        environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols])
        environment.filters["tojson"] = _tojson
        environment.globals["raise_exception"] = _raise_exception
        environment.globals["strftime_now"] = _strftime_now
        self._template = environment.from_string(source)
        self._special_tokens = dict(special_tokens)

    def render(
        self,
        messages: Sequence[Mapping[str, Any]],
        add_generation_prompt: bool = True,
        variables: Mapping[str, Any] | None = None,
    ) -> str:
        """Returns the prompt's text. Raises InvalidRequest where the template refuses the messages."""
        names = {**self._special_tokens, "tools": None, "documents": None, **(variables or {})}
        try:
            return self._template.render(messages=messages, add_generation_prompt=add_generation_prompt, **names)
        except (jinja2.TemplateError, TypeError, ValueError, KeyError, RecursionError, OverflowError) as error:
            raise InvalidRequest(_refusal(error, messages), "messages") from error


def _refusal(error: Exception, messages: Sequence[Mapping[str, Any]]) -> str:
    """Quotes the template's own complaint unless it repeats what the client wrote."""
    told = "the model's chat template refused these messages"
    if type(error) is not jinja2.TemplateError:
        return f"{told}; check their roles and contents"
    complaint = str(error)
    quoted = any(str(value) and str(value) in complaint for message in messages for value in message.values())
    return told if quoted else f"{told}: {complaint}"


def _tojson(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _raise_exception(message: str) -> None:
    raise jinja2.TemplateError(message)


def _strftime_now(pattern: str) -> str:
    return datetime.now().strftime(pattern)
