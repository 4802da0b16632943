"""Pumps one bidirectional stream: requests into a session, its replies out, a word every second while it waits."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import grpc
from google.protobuf.message import DecodeError, Message

from forerun.errors import DeadlineExceeded, ForerunError, InvalidRequest
from forerun.rpc.messages import Waiting
from forerun.rpc.status import abort, fault_of
from forerun.serving.drain import Drain
from forerun.serving.session import END, End, ReplyBox, Session

log = logging.getLogger(__name__)

WAITING_EVERY_S = 1.0
LEASE_S = 600.0
"""A client that asked nothing for this long is gone, whatever the network says."""

_EOF: object = grpc.aio.EOF  # type: ignore[attr-defined]


async def serve(
    context: Any, reply_type: Callable[..., Message], open_session: Callable[[Any, ReplyBox], Session], drain: Drain
) -> None:
    """Serves a stream whose first message is `open`; the session is ended however the stream ends.

    A first message that cannot be served ends the call with its status; later faults are sent as Fault.
    """
    box = ReplyBox()
    try:
        first = await context.read()
    except DecodeError:
        await abort(context, InvalidRequest("the first message is no message of this stream", "open"))
    if first is _EOF or first.WhichOneof("message") != "open":
        await abort(context, InvalidRequest("a stream starts with an open message", "open"))
    with ExitStack() as stack:
        try:
            stack.enter_context(drain.telling(box))
            session = open_session(first.open, box)
        except ForerunError as error:
            await abort(context, error)
        await _pump(context, session, box, reply_type)


async def _pump(context: Any, session: Session, box: ReplyBox, reply_type: Callable[..., Message]) -> None:
    session.begin()
    reading = asyncio.create_task(_read(context, session, box))
    try:
        await _write(context, session, box, reply_type)
    finally:
        reading.cancel()
        session.end()


async def _read(context: Any, session: Session, box: ReplyBox) -> None:
    try:
        while (request := await context.read()) is not _EOF:
            kind = request.WhichOneof("message")
            if kind in ("finish", "abort"):
                break
            if kind in (None, "open"):
                raise InvalidRequest(f"expected a request, got {kind or 'an empty message'}", kind)
            session.receive(getattr(request, kind))
        box.put(END)
    except ForerunError as error:
        box.put(error)
    except DecodeError:
        box.put(InvalidRequest("these bytes are no message of this stream"))
    except (grpc.RpcError, asyncio.InvalidStateError):
        box.put(END)


async def _write(context: Any, session: Session, box: ReplyBox, reply_type: Callable[..., Message]) -> None:
    quiet_s = 0.0
    while True:
        reply = await box.get(WAITING_EVERY_S)
        if reply is None:
            quiet_s += WAITING_EVERY_S
            reply = _nothing_yet(session, quiet_s)
        else:
            quiet_s = 0.0
        if isinstance(reply, End):
            return
        if isinstance(reply, Exception):
            await context.write(reply_type(fault=fault_of(reply)))
            return
        if reply is not None:
            await context.write(_wrap(reply, reply_type))


def _nothing_yet(session: Session, quiet_s: float) -> Message | Exception | None:
    if reason := session.waiting_for():
        return Waiting(reason=reason)
    if quiet_s >= LEASE_S:
        return DeadlineExceeded(f"nothing was asked on this stream for {LEASE_S:.0f} s")
    return None


_FIELDS = {
    "Verdict": "verdict",
    "Proposal": "proposal",
    "Ahead": "ahead",
    "Held": "held",
    "Waiting": "waiting",
    "PromptLogprobs": "prompt_logprobs",
    "Draining": "draining",
}


def _wrap(reply: Message, reply_type: Callable[..., Message]) -> Message:
    return reply_type(**{_FIELDS[reply.DESCRIPTOR.name]: reply})
