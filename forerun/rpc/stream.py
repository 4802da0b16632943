"""One bidirectional stream, seen from the client: one task writes, one reads, nobody else waits for the network."""

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar, cast

import grpc

from forerun.errors import ForerunError, ServiceUnavailable
from forerun.rpc.status import error_of_rpc

Request = TypeVar("Request")
Reply = TypeVar("Reply")

_EOF: object = grpc.aio.EOF  # type: ignore[attr-defined]
FIRST_REPLIES, REPLIES_A_SECOND = 64, 4  # a patient peer says every second that it still works
END_S = 1.0  # a peer that has not ended the call by then after Finish or Abort is cut off


class ClientStream(Generic[Request, Reply]):
    """Sends the newest message and delivers every reply, in order, then at most one error.

    `post` never blocks: at most one message waits to be written, a newer one replaces it. Nothing is delivered after
    `end`. `deliver` is called on the event loop, from the reading task. With `replies_a_message` the peer may not say
    more than that to each message, and a little more as time goes by: one that floods us is cut off.
    """

    def __init__(
        self,
        call: "grpc.aio.StreamStreamCall[Request, Reply]",
        peer: str,
        first: Request,
        deliver: Callable[[Reply | ForerunError], None],
        replies_a_message: int | None = None,
    ) -> None:
        self._allowed, self._replies_a_message = float(FIRST_REPLIES), replies_a_message
        self._began_s, self._num_replies = asyncio.get_running_loop().time(), 0
        self._call, self._peer, self._deliver = call, peer, deliver
        self._first: Request | None = first
        self._next: Request | None = None
        self._last: Request | None = None
        self._ended = False
        self._wake = asyncio.get_running_loop().create_future()
        self._tasks = [asyncio.create_task(self._read()), asyncio.create_task(self._write())]

    @property
    def has_unsent(self) -> bool:
        """Whether the next message would take the place of one that nobody heard."""
        return self._next is not None

    def post(self, message: Request) -> None:
        """Sends `message` next, in place of one that was posted before and is not yet on its way."""
        self._next = message
        self._wake_writer()

    def end(self, last: Request) -> None:
        """Sends `last` (Finish or Abort), closes, and cuts the call off after a second; returns at once."""
        if self._ended:
            return
        self._ended, self._last, self._next = True, last, None
        self._wake_writer()
        cut = asyncio.get_running_loop().call_later(END_S, self._call.cancel)
        self._tasks[0].add_done_callback(lambda _: cut.cancel())

    async def closed(self) -> None:
        """Returns when both tasks are gone."""
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _wake_writer(self) -> None:
        if not self._wake.done():
            self._wake.set_result(None)

    async def _write(self) -> None:
        try:
            while True:
                await self._wake_or_first()
                while (message := self._take()) is not None:
                    self._allowed += self._replies_a_message or 0
                    await self._call.write(message)
                if self._ended:
                    await self._call.done_writing()
                    return
        except (grpc.RpcError, asyncio.InvalidStateError, asyncio.CancelledError):
            return  # the reader learns the status and tells

    async def _wake_or_first(self) -> None:
        if self._first is None:
            await self._wake
        self._wake = asyncio.get_running_loop().create_future()

    def _take(self) -> Request | None:
        message = self._first or self._next or self._last
        if self._first is not None:
            self._first = None
        elif self._next is not None:
            self._next = None
        else:
            self._last = None
        return message

    async def _read(self) -> None:
        error: ForerunError = ServiceUnavailable(f"{self._peer} ended the stream")
        try:
            while (reply := await self._call.read()) is not _EOF:
                if reply is None:
                    raise ServiceUnavailable(f"{self._peer} sent bytes that are no message")
                if not self._ended:
                    self._check_flood()
                    self._deliver(cast(Reply, reply))
            await self._raise_status()
        except ServiceUnavailable as nonsense:
            error = nonsense
            self._call.cancel()
        except (grpc.RpcError, asyncio.CancelledError) as failure:
            if isinstance(failure, grpc.RpcError):
                error = error_of_rpc(failure, self._peer)
        self._stop_writing()
        if not self._ended:
            self._ended = True
            self._deliver(error)

    def _check_flood(self) -> None:
        self._num_replies += 1
        if self._replies_a_message is None or self._num_replies <= self._allowed:
            return
        since_s = asyncio.get_running_loop().time() - self._began_s
        if self._num_replies > self._allowed + REPLIES_A_SECOND * since_s:
            raise ServiceUnavailable(f"{self._peer} sent {self._num_replies} replies, more than it was asked for")

    async def _raise_status(self) -> None:
        code = await self._call.code()
        if code is not grpc.StatusCode.OK:
            nothing = grpc.aio.Metadata()
            raise grpc.aio.AioRpcError(code, nothing, nothing, await self._call.details(), None)

    def _stop_writing(self) -> None:
        self._tasks[1].cancel()
