"""Text to ids and back, with the model folder's own tokenizer and chat template; no torch, no transformers."""

from collections.abc import Mapping, Sequence
from typing import Any

from tokenizers import Tokenizer

from forerun.errors import InvalidRequest
from forerun.models.tokenizer_files import ModelText
from gateway.api.chat_template import ChatTemplate
from gateway.api.detokenizer import Detokenizer
from gateway.api.token_bytes import TokenBytes


class Text:
    """A tokenizer and, where the model has one, its chat template. Stateless: any task or thread may use it."""

    def __init__(self, tokenizer: Tokenizer, chat_template: ChatTemplate | None = None) -> None:
        self._tokenizer = tokenizer
        self._chat_template = chat_template
        added = tokenizer.get_added_tokens_decoder()
        self._special_ids = frozenset(id for id, token in added.items() if token.special)
        self._bytes = TokenBytes(tokenizer)

    @classmethod
    def of(cls, model: ModelText) -> "Text":
        """Returns the text side of a model folder that was read."""
        source = model.chat_template
        return cls(model.tokenizer, ChatTemplate(source, model.special_tokens) if source else None)

    def encode(self, text: str, add_special_tokens: bool = True) -> list[int]:
        """Returns the ids of `text`, special tokens parsed; a BOS that the text brings is not doubled."""
        try:
            ids: list[int] = self._tokenizer.encode(text, add_special_tokens=add_special_tokens).ids
        except (UnicodeEncodeError, TypeError) as error:
            raise InvalidRequest("the text is not valid Unicode (a lone surrogate?)") from error
        if add_special_tokens and len(ids) > 1 and ids[0] == ids[1] and ids[0] in self._special_ids:
            plain: list[int] = self._tokenizer.encode(text, add_special_tokens=False).ids
            return plain if ids[1:] == plain else ids
        return ids

    def render_chat(
        self,
        messages: Sequence[Mapping[str, Any]],
        add_generation_prompt: bool = True,
        variables: Mapping[str, Any] | None = None,
    ) -> str:
        """Returns the prompt text of a chat. Raises InvalidRequest where the model has no chat template."""
        if self._chat_template is None:
            raise InvalidRequest("this model has no chat template; use /v1/completions", "messages")
        return self._chat_template.render(messages, add_generation_prompt, variables)

    def decode(self, ids: Sequence[int]) -> str:
        """Returns the text of `ids`, special tokens included."""
        return str(self._tokenizer.decode(list(ids), skip_special_tokens=False))

    def token_bytes(self, token: int) -> bytes:
        """Returns exactly the bytes that `token` stands for inside a text."""
        return self._bytes[token]

    def token_text(self, token: int) -> str:
        """Returns the token alone as text; U+FFFD for bytes that are no whole character."""
        return self._bytes[token].decode("utf-8", "replace")

    def detokenizer(self) -> Detokenizer:
        """Returns a fresh incremental detokeniser; special tokens give no text."""
        return Detokenizer(self._tokenizer, self._special_ids)

    def offsets(self, ids: Sequence[int], text: str) -> tuple[int, ...]:
        """Returns where each of `ids` begins in `text`, which they stand for.

        A token that completes no character begins where that character does, a BOS that the text does not bring at 0.
        """
        detokenizer, at, offsets = Detokenizer(self._tokenizer, frozenset()), 0, []
        for token in ids:
            offsets.append(min(at, len(text)))
            is_added = at == 0 and token in self._special_ids and not text.startswith(self.token_text(token))
            at += 0 if is_added else len(detokenizer.push(token))
        return tuple(offsets)

    @property
    def longest_token(self) -> int:
        """Bytes of the longest token: a text of n bytes has at least n / longest_token tokens."""
        return self._bytes.longest
