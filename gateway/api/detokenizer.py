"""Ids to text, a token at a time, never splitting a character."""

from collections.abc import Set

from tokenizers import Tokenizer

_REPLACEMENT = "\ufffd"
_MAX_PENDING = 32  # a character has at most 4 bytes: what is still broken after 32 tokens is garbage


class Detokenizer:
    """The prefix-offset method: a window of tokens whose text is partly sent.

    The window starts at a character border one group of tokens back, because decoders treat the first token
    of a text specially. Text that ends in U+FFFD is held, as its last character may lack bytes.
    """

    def __init__(self, tokenizer: Tokenizer, skipped_ids: Set[int]) -> None:
        self._tokenizer = tokenizer
        self._skipped_ids = skipped_ids
        self._window: list[int] = []
        self._num_settled = 0  # tokens of the window whose text is sent
        self._sent = 0  # characters of the window's text that are sent

    def push(self, token: int) -> str:
        """Returns the text that became certain with `token`, often empty."""
        if token in self._skipped_ids:
            return ""
        self._window.append(token)
        text = self._decode()
        if len(text) <= self._sent:
            return ""
        if text.endswith(_REPLACEMENT) and len(self._window) - self._num_settled < _MAX_PENDING:
            return ""
        delta = text[self._sent :]
        self._settle()
        return delta

    def flush(self) -> str:
        """Returns what was held back, broken characters as U+FFFD; nothing may be pushed afterwards."""
        return self._decode()[self._sent :] if len(self._window) > self._num_settled else ""

    def _settle(self) -> None:
        self._window = self._window[self._num_settled :]
        self._num_settled = len(self._window)
        self._sent = len(self._decode())

    def _decode(self) -> str:
        return str(self._tokenizer.decode(self._window, skip_special_tokens=False))
