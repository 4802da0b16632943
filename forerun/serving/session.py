"""One stream, seen from inside a service: requests go to its session, replies come from any thread."""

import asyncio
from typing import Any, Final, Protocol

from google.protobuf.message import Message

from forerun.rpc.mailbox import Mailbox


class End:
    """The reply after which the service closes the stream."""


END: Final = End()

Reply = Message | Exception | End


class Session(Protocol):
    """Serves one sequence; all methods are called on the event loop."""

    def begin(self) -> None:
        """The stream is open: prefill may start."""
        ...

    def receive(self, request: Any) -> None:
        """Takes the next message; it supersedes one that was not answered yet."""
        ...

    def waiting_for(self) -> str:
        """What an unanswered message waits for; empty where none is unanswered."""
        ...

    def end(self) -> None:
        """The stream is gone, for whatever reason: everything held for it is freed."""
        ...


class ReplyBox:
    """Carries replies, or the error that ends the stream, to the stream's writer."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._mailbox: Mailbox[Reply] = Mailbox()

    def put(self, reply: Reply) -> None:
        """Leaves a reply; may be called from any thread."""
        try:
            self._loop.call_soon_threadsafe(self._mailbox.put, reply)
        except RuntimeError:
            return  # the event loop is closed: nobody is left to hear it

    async def get(self, timeout_s: float) -> Reply | None:
        """The next reply; None where none came in time."""
        return await self._mailbox.get(self._loop.time() + timeout_s)
