"""Logprobs in the two forms that OpenAI's API has."""

from collections.abc import Sequence
from typing import Any

from forerun.types import TokenLogprobs
from gateway.text import Text

_LOWEST = -9999.0  # JSON has no -inf; OpenAI writes this


def chat_logprobs(text: Text, ids: Sequence[int], logprobs: Sequence[TokenLogprobs], num_top: int) -> dict[str, Any]:
    """Returns `choices[].logprobs` of a chat."""
    return {"content": [_entry(text, *pair, num_top) for pair in zip(ids, logprobs, strict=True)], "refusal": None}


def _entry(text: Text, token: int, own: TokenLogprobs, num_top: int) -> dict[str, Any]:
    top = zip(own.top_ids[:num_top], own.top_logprobs[:num_top], strict=True)
    return {**_token(text, token, own.logprob), "top_logprobs": [_token(text, *pair) for pair in top]}


def _token(text: Text, token: int, logprob: float) -> dict[str, Any]:
    spelled = text.token_bytes(token)
    return {"token": spelled.decode("utf-8", "replace"), "logprob": max(logprob, _LOWEST), "bytes": list(spelled)}


def completion_logprobs(
    text: Text, ids: Sequence[int], logprobs: Sequence[TokenLogprobs | None], offsets: Sequence[int], num_top: int
) -> dict[str, Any]:
    """Returns `choices[].logprobs` of a completion; None stands for a prompt's first token, which has no law."""
    tokens = [text.token_text(token) for token in ids]
    return {
        "tokens": tokens,
        "token_logprobs": [None if own is None else max(own.logprob, _LOWEST) for own in logprobs],
        "top_logprobs": [_top(text, *pair, num_top) for pair in zip(tokens, logprobs, strict=True)],
        "text_offset": list(offsets),
    }


def _top(text: Text, token: str, own: TokenLogprobs | None, num_top: int) -> dict[str, float] | None:
    if own is None:
        return None
    top: dict[str, float] = {}
    for other, logprob in list(zip(own.top_ids, own.top_logprobs, strict=True))[:num_top]:
        top.setdefault(text.token_text(other), max(logprob, _LOWEST))
    top.setdefault(token, max(own.logprob, _LOWEST))
    return top
