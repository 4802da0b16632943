"""HTTP as we need it: bounded bodies, errors in OpenAI's shape, answers that stop when the client leaves."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from functools import partial
from typing import Any, TypeVar

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from forerun.errors import InvalidRequest
from gateway.api.errors import BodyTooLarge, BodyTooSlow, error_body, error_headers, face_of
from gateway.api.limits import Limits

Result = TypeVar("Result")
_INLINE_BYTES = 32_768
STALLED_S = 60.0
_DISCARD_S = 2.0
"""How long the rest of a body that is too large is read and dropped: a client that is still sending hears no answer."""


async def read_body(request: Request, limits: Limits) -> bytes:
    """Returns the request's body. Raises BodyTooLarge as soon as it is known to be, BodyTooSlow when time is up."""
    try:
        async with asyncio.timeout(limits.body_s):
            return await _read_body(request, limits.body_bytes)
    except BodyTooLarge:
        await _discard(request)
        raise
    except TimeoutError as error:
        raise BodyTooSlow(f"the body did not arrive within {limits.body_s:g} s") from error


async def _read_body(request: Request, limit: int) -> bytes:
    declared = request.headers.get("content-length", "0")
    if declared.isdigit() and int(declared) > limit:
        raise BodyTooLarge(f"the body has {declared} bytes; this server reads at most {limit}")
    chunks, size = [], 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > limit:
            raise BodyTooLarge(f"the body has more than the {limit} bytes that this server reads")
        chunks.append(chunk)
    return b"".join(chunks)


async def _discard(request: Request) -> None:
    """Drops what is left of the body, unless the client waits for leave to send it."""
    if "expect" in request.headers:
        return
    with contextlib.suppress(TimeoutError, ClientDisconnect):
        async with asyncio.timeout(_DISCARD_S):
            while (await request.receive()).get("more_body"):
                pass


async def off_loop(num_bytes: int, work: Callable[[], Result]) -> Result:
    """Returns what `work` makes of a body; that of a long one is made in a thread, as splitting text takes time."""
    return work() if num_bytes <= _INLINE_BYTES else await asyncio.to_thread(work)


def parse_json(raw: bytes) -> dict[str, Any]:
    """Returns the JSON object in `raw`. Raises InvalidRequest without quoting it."""
    try:
        body = json.loads(raw, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        told = f"the body is not valid JSON: {error.msg} at line {error.lineno}, column {error.colno}"
        raise InvalidRequest(told) from error
    except (ValueError, RecursionError) as error:
        raise InvalidRequest("the body is not valid JSON: bad UTF-8, NaN, or nested too deeply") from error
    if not isinstance(body, dict):
        raise InvalidRequest("the body must be a JSON object")
    return body


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def json_response(body: Mapping[str, Any], status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Returns a JSON response; non-ASCII text stays readable."""
    return Response(encode(body), status, dict(headers or {}), "application/json")


def encode(body: Mapping[str, Any]) -> bytes:
    """Returns compact JSON in UTF-8."""
    return json.dumps(body, separators=(",", ":")).encode()


def error_response(error: Exception) -> Response:
    """Returns `error` as OpenAI's clients expect it."""
    return json_response(error_body(error), face_of(error).http, error_headers(error))


class Cancellable(Response):
    """A response that is computed while it is sent, and cancelled at once when the client disconnects.

    A client that takes nothing for STALLED_S has left as well.
    """

    def __init__(self, answer: Callable[[Send], Coroutine[Any, Any, None]]) -> None:
        self._answer = answer
        self.background = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Races the answer against the client's leaving."""
        work = asyncio.create_task(self._answer(partial(_send_soon, send)))
        gone = asyncio.create_task(_gone(receive))
        try:
            await asyncio.wait((work, gone), return_when=asyncio.FIRST_COMPLETED)
            if work.done() and not work.cancelled():
                work.result()
        finally:
            work.cancel()
            gone.cancel()
            await asyncio.gather(work, gone, return_exceptions=True)


class Stalled(asyncio.CancelledError):
    """The client reads nothing: its answer is cancelled."""


async def taken(sending: Awaitable[None]) -> None:
    """Returns when the client has taken a message. Raises Stalled where it takes nothing for STALLED_S."""
    try:
        async with asyncio.timeout(STALLED_S):
            await sending
    except TimeoutError as error:
        raise Stalled(f"the client took nothing for {STALLED_S:g} s") from error


async def _send_soon(send: Send, message: Message) -> None:
    await taken(send(message))


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def send_response(send: Send, response: Response) -> None:
    """Sends a complete response from inside `Cancellable`."""
    await send({"type": "http.response.start", "status": response.status_code, "headers": response.raw_headers})
    await send({"type": "http.response.body", "body": response.body})


_EVENT_STREAM = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
]


async def send_events(send: Send, events: AsyncIterator[str], headers: list[tuple[bytes, bytes]]) -> None:
    """Sends JSON strings as server-sent events; status 200 goes out with the first of them.

    Raises what `events` raises before its first; a later error becomes the last event.
    """
    begun = False
    try:
        async for event in events:
            if not begun:
                begun = True
                await send({"type": "http.response.start", "status": 200, "headers": _EVENT_STREAM + headers})
            await _send_event(send, event)
    except Exception as error:
        if not begun:
            raise
        await _send_event(send, encode(error_body(error)).decode(), more=False)
        return
    await _send_event(send, "[DONE]", more=False)


async def _send_event(send: Send, data: str, more: bool = True) -> None:
    await send({"type": "http.response.body", "body": f"data: {data}\n\n".encode(), "more_body": more})
