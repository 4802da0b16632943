"""The two generating endpoints over HTTP."""

import time
import uuid
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from typing import Any, Literal

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Send

from gateway.api.core import Core
from gateway.api.guard import tenant_of
from gateway.api.http import (
    Cancellable,
    error_response,
    json_response,
    off_loop,
    parse_json,
    read_body,
    send_events,
    send_response,
)
from gateway.api.job import Job
from gateway.api.runner import Run
from gateway.api.shapes import ChatShape, CompletionShape, Shape

_PREFIXES = {"chat": "chatcmpl-", "completion": "cmpl-"}
Endpoint = Literal["chat", "completion"]


class GeneratingEndpoints:
    """POST /v1/chat/completions and POST /v1/completions."""

    def __init__(self, core: Core) -> None:
        self._core = core

    async def chat(self, request: Request) -> Response:
        """Answers a chat."""
        return await self._answer(request, "chat", self._core.requests.chat)

    async def completion(self, request: Request) -> Response:
        """Continues one or more prompts."""
        return await self._answer(request, "completion", self._core.requests.completion)

    async def _answer(
        self, request: Request, endpoint: Endpoint, read: Callable[[Mapping[str, Any], str], Job]
    ) -> Response:
        request_id = _PREFIXES[endpoint] + uuid.uuid4().hex
        traceparent = request.headers.get("traceparent")
        try:
            raw = await read_body(request, self._core.limits)
            job = await off_loop(len(raw), lambda: read(parse_json(raw), tenant_of(request.scope)))
        except ClientDisconnect:
            return Response(status_code=499)
        except Exception as error:
            self._core.refused(endpoint, error, request_id, traceparent)
            return error_response(error)
        deliver = self._stream if job.stream else self._whole
        return Cancellable(lambda send: deliver(send, job, request_id, traceparent))

    async def _whole(self, send: Send, job: Job, request_id: str, traceparent: str | None) -> None:
        try:
            async with self._core.running(job, request_id, traceparent) as run:
                pieces = await run.whole()
                body = self._shape(job, request_id, run).body(pieces, run.totals)
            response = json_response(body, headers={"x-request-id": request_id})
        except Exception as error:
            response = error_response(error)
        await send_response(send, response)

    async def _stream(self, send: Send, job: Job, request_id: str, traceparent: str | None) -> None:
        headers = [(b"x-request-id", request_id.encode())]
        try:
            async with aclosing(self._events(job, request_id, traceparent)) as events:
                await send_events(send, events, headers)
        except Exception as error:
            await send_response(send, error_response(error))

    async def _events(self, job: Job, request_id: str, traceparent: str | None) -> AsyncGenerator[str, None]:
        async with self._core.running(job, request_id, traceparent) as run:
            shape = self._shape(job, request_id, run)
            async for piece in run.pieces():
                chunk = shape.chunk(piece)
                if chunk is not None:
                    yield chunk
            if job.include_usage:
                yield shape.usage_chunk(run.totals)

    def _shape(self, job: Job, request_id: str, run: Run) -> Shape:
        created = int(time.time())
        if job.endpoint == "chat":
            return ChatShape(job, self._core.text, request_id, created)
        return CompletionShape(job, self._core.text, request_id, created, run.prompt_logprobs)
