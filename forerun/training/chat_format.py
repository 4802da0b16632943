"""The ids around what user and target say, taken from the target's own chat template."""

from collections.abc import Callable, Sequence
from typing import Any

import jinja2
from transformers.utils.chat_template_utils import render_jinja_template

from forerun.errors import ConfigError
from forerun.models.tokenizer_files import ModelText

_MARKS = ("first-mark-7f3a", "answer-mark-7f3a", "second-mark-7f3a")
"""Words that no template contains: they show where it puts the contents."""


class ChatFormat:
    """before_user(system): ids up to where a user begins to speak. after_user: from there to where the target answers.

    after_answer(text): from the end of an answer over the user's next words to the next answer.
    ends: ids at which a turn is over.
    """

    def __init__(self, text: ModelText) -> None:
        if text.chat_template is None:
            raise ConfigError("the target has no chat template")
        self._text = text
        self._render = _renderer(text)
        first, answer, second = _MARKS
        messages = [_message("user", first), _message("assistant", answer), _message("user", second)]
        _, _, between, self._after_user = _split(self._render(messages), messages)
        self._between = between
        self.after_user = self._ids(_split(self._render(messages[:1]), messages[:1])[1])
        self.ends = frozenset(text.eos_token_ids) | (frozenset(self.after_user[:1]) & text.special_ids)

    def before_user(self, system: str | None = None) -> tuple[int, ...]:
        """Without a system message the template's own, if it has one; also where it does not take any."""
        return self._ids(self._rendered(_MARKS[0], system).split(_MARKS[0])[0])

    def request(self, text: str, system: str | None = None) -> tuple[int, ...]:
        """A first request, up to where the target answers."""
        return self._ids(self._rendered(text, system))

    def after_answer(self, text: str) -> tuple[int, ...]:
        return self._ids(self._between + text + self._after_user)

    def _rendered(self, content: str, system: str | None) -> str:
        user = [_message("user", content)]
        try:
            return self._render([_message("system", system), *user] if system else user)
        except (jinja2.TemplateError, TypeError, ValueError, KeyError):
            return self._render(user)

    def _ids(self, text: str) -> tuple[int, ...]:
        return tuple(self._text.tokenizer.encode(text, add_special_tokens=False).ids)


def _renderer(text: ModelText) -> Callable[[Sequence[dict[str, str]]], str]:
    def render(messages: Sequence[dict[str, str]]) -> str:
        special: dict[str, Any] = dict(text.special_tokens)
        rendered: Any = render_jinja_template(
            [list(messages)], chat_template=text.chat_template, add_generation_prompt=True, **special
        )
        return str(rendered[0][0])

    return render


def _split(rendered: str, messages: Sequence[dict[str, str]]) -> list[str]:
    """What stands before, between and after the contents. Raises ConfigError where one of them is missing."""
    pieces = []
    for message in messages:
        before, found, rendered = rendered.partition(message["content"])
        if not found:
            raise ConfigError(f"the target's chat template drops what the {message['role']} says")
        pieces.append(before)
    return [*pieces, rendered]


def _message(role: str, content: str) -> dict[str, str]:
    return {"role": role, "content": content}
