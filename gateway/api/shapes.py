"""The bodies and chunks of OpenAI's two endpoints. Chunks are put together by hand: they are the hot path."""

import json
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from forerun.types import TokenLogprobs
from gateway.api.job import Job, Piece
from gateway.api.logprobs import chat_logprobs, completion_logprobs
from gateway.api.totals import Totals
from gateway.text import Text

PromptLogprobs = Callable[[int], tuple[TokenLogprobs, ...]]


class Shape(Protocol):
    """One endpoint's way to write an answer. A shape belongs to one request."""

    def chunk(self, piece: Piece) -> str | None:
        """Returns the JSON of a stream's next chunk, None where there is nothing to tell."""
        ...

    def usage_chunk(self, totals: Totals) -> str:
        """Returns the JSON of the last chunk."""
        ...

    def body(self, pieces: Sequence[Piece], totals: Totals) -> dict[str, Any]:
        """Returns the whole answer, one piece a choice."""
        ...


class _Envelope:
    """What surrounds the choices."""

    def __init__(self, job: Job, request_id: str, created: int, kind: str) -> None:
        self.head = {"id": request_id, "object": kind, "created": created, "model": job.model}
        self._start = json.dumps(self.head, separators=(",", ":"))[:-1] + ',"choices":['
        self._end = '],"usage":null}' if job.include_usage else "]}"

    def around(self, choice: str) -> str:
        return f"{self._start}{choice}{self._end}"

    def usage(self, totals: Totals) -> str:
        tail = {"usage": totals.usage(), "speculative": totals.speculative()}
        return f"{self._start}],{json.dumps(tail, separators=(',', ':'))[1:]}"

    def body(self, choices: list[dict[str, Any]], totals: Totals) -> dict[str, Any]:
        return {**self.head, "choices": choices, "usage": totals.usage(), "speculative": totals.speculative()}


class ChatShape:
    """/v1/chat/completions."""

    def __init__(self, job: Job, text: Text, request_id: str, created: int) -> None:
        kind = "chat.completion.chunk" if job.stream else "chat.completion"
        self._envelope = _Envelope(job, request_id, created, kind)
        self._job = job
        self._text = text
        self._begun = [False] * job.num_choices

    def chunk(self, piece: Piece) -> str | None:
        """See `Shape.chunk`; the first chunk of a choice brings its role."""
        if not _tells(piece, self._job):
            return None
        delta = f'{{"content":{json.dumps(piece.text)}}}' if piece.text else "{}"
        if not self._begun[piece.index]:
            self._begun[piece.index] = True
            delta = f'{{"role":"assistant","content":{json.dumps(piece.text)}}}'
        logprobs = "null" if self._job.num_logprobs is None else json.dumps(self._logprobs(piece))
        return self._envelope.around(
            f'{{"index":{piece.index},"delta":{delta},"logprobs":{logprobs},{_tail(piece, self._job)}'
        )

    def usage_chunk(self, totals: Totals) -> str:
        """See `Shape.usage_chunk`."""
        return self._envelope.usage(totals)

    def body(self, pieces: Sequence[Piece], totals: Totals) -> dict[str, Any]:
        """See `Shape.body`."""
        body = self._envelope.body([self._choice(piece) for piece in pieces], totals)
        if self._job.return_token_ids:
            body["prompt_token_ids"] = list(self._job.prompts[0].ids)
        return body

    def _choice(self, piece: Piece) -> dict[str, Any]:
        choice = {
            "index": piece.index,
            "message": {"role": "assistant", "content": piece.text, "refusal": None},
            "logprobs": self._logprobs(piece),
            "finish_reason": piece.finish_reason,
        }
        return {**choice, "token_ids": list(piece.token_ids)} if self._job.return_token_ids else choice

    def _logprobs(self, piece: Piece) -> dict[str, Any] | None:
        num_top = self._job.num_logprobs
        return None if num_top is None else chat_logprobs(self._text, piece.logprob_ids, piece.logprobs, num_top)


class CompletionShape:
    """/v1/completions; echo puts the prompt, and with logprobs its laws, before each choice."""

    def __init__(self, job: Job, text: Text, request_id: str, created: int, prompt_logprobs: PromptLogprobs) -> None:
        self._envelope = _Envelope(job, request_id, created, "text_completion")
        self._job = job
        self._text = text
        self._prompt_logprobs = prompt_logprobs
        self._begun = [False] * job.num_choices

    def chunk(self, piece: Piece) -> str | None:
        """See `Shape.chunk`."""
        if not (_tells(piece, self._job) or (self._job.echo and not self._begun[piece.index])):
            return None
        text, logprobs = self._content(piece)
        return self._envelope.around(
            f'{{"index":{piece.index},"text":{json.dumps(text)},"logprobs":{json.dumps(logprobs)},'
            + _tail(piece, self._job)
        )

    def usage_chunk(self, totals: Totals) -> str:
        """See `Shape.usage_chunk`."""
        return self._envelope.usage(totals)

    def body(self, pieces: Sequence[Piece], totals: Totals) -> dict[str, Any]:
        """See `Shape.body`."""
        return self._envelope.body([self._choice(piece) for piece in pieces], totals)

    def _choice(self, piece: Piece) -> dict[str, Any]:
        text, logprobs = self._content(piece)
        choice = {"index": piece.index, "text": text, "logprobs": logprobs, "finish_reason": piece.finish_reason}
        if self._job.return_token_ids:
            choice["token_ids"] = list(piece.token_ids)
            choice["prompt_token_ids"] = list(self._job.prompts[piece.index // self._job.n].ids)
        return choice

    def _content(self, piece: Piece) -> tuple[str, dict[str, Any] | None]:
        """Returns the piece's text and logprobs, with the prompt's before the first piece of an echo."""
        text, ids, num_top = piece.text, piece.logprob_ids, self._job.num_logprobs
        laws: tuple[TokenLogprobs | None, ...] = piece.logprobs
        prompt = self._job.prompts[piece.index // self._job.n]
        offsets = tuple(len(prompt.text) + offset for offset in piece.offsets)
        if self._job.echo and not self._begun[piece.index]:
            text = prompt.text + text
            if num_top is not None:
                ids, laws = prompt.ids + ids, (None, *self._prompt_logprobs(piece.index), *laws)
                offsets = prompt.offsets + offsets
        self._begun[piece.index] = True
        return text, None if num_top is None else completion_logprobs(self._text, ids, laws, offsets, num_top)


def _tells(piece: Piece, job: Job) -> bool:
    """Whether a piece is worth a chunk: tokens whose text is still held are not."""
    return bool(piece.text or piece.finish_reason or piece.logprobs or (job.return_token_ids and piece.token_ids))


def _tail(piece: Piece, job: Job) -> str:
    reason = "null" if piece.finish_reason is None else f'"{piece.finish_reason}"'
    ids = f',"token_ids":{json.dumps(piece.token_ids)}' if job.return_token_ids else ""
    return f'"finish_reason":{reason}{ids}}}'
