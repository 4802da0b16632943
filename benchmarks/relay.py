"""Links that take their time: TCP relays that delay, throttle, hold and cut, in this process or in one of their own.

python -m benchmarks.relay NAME=LISTEN_HOST:PORT=HOST:PORT …

Each line on stdin sets one link, {"link": NAME, "delay_s": 0.02, "bytes_per_s": 0, "held": false}, or cuts it,
{"link": NAME, "cut": true}; each is answered by a line on stdout.
"""

import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncIterator

QUEUED = 256  # chunks under way in one direction; then the sender has to wait, as on a real link
CHUNK = 1 << 16


class Link:
    """A relay to `address`; what is set holds for every connection from then on.

    delay_s: one way. bytes_per_s: of each direction of a connection, 0 is no limit. While held, as in a partition,
    nothing passes and nobody is told: connections stay open, new ones hang, and what was sent comes when it heals.
    """

    def __init__(self, address: str, delay_s: float = 0.0) -> None:
        self.address, self.delay_s, self.bytes_per_s = address, delay_s, 0.0
        self._flows = asyncio.Event()
        self._flows.set()
        self._connections: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()

    @property
    def held(self) -> bool:
        """Whether nothing passes."""
        return not self._flows.is_set()

    @held.setter
    def held(self, held: bool) -> None:
        if held:
            self._flows.clear()
        else:
            self._flows.set()

    def cut(self) -> None:
        """Resets every connection; new ones are taken."""
        for writer in self._writers:
            writer.transport.abort()

    async def connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serves one connection; for asyncio.start_server."""
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        self._writers.add(writer)
        try:
            await self._flows.wait()
            host, _, port = self.address.rpartition(":")
            far_reader, far_writer = await asyncio.open_connection(host, int(port))
            self._writers.add(far_writer)
            try:
                await asyncio.gather(self._direction(reader, far_writer), self._direction(far_reader, writer))
            finally:
                self._drop(far_writer)
        except OSError:
            pass  # nobody listens there, or one side is gone: the other learns it by its own connection's end
        finally:
            self._drop(writer)
            self._connections.discard(task)

    async def close(self) -> None:
        """Ends every connection."""
        self.held = False
        self.cut()
        await asyncio.gather(*self._connections)

    def _drop(self, writer: asyncio.StreamWriter) -> None:
        self._writers.discard(writer)
        writer.close()

    async def _direction(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Returns when the sender closed and all that it sent has arrived; raises OSError where it broke off."""
        way: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(QUEUED)
        arriving = asyncio.create_task(self._arrivals(way, writer))
        try:
            loop = asyncio.get_running_loop()
            while data := await reader.read(CHUNK):
                await way.put((loop.time(), data))
            await way.put((loop.time(), b""))
            await arriving
        finally:
            arriving.cancel()

    async def _arrivals(self, way: "asyncio.Queue[tuple[float, bytes]]", writer: asyncio.StreamWriter) -> None:
        loop, free_at = asyncio.get_running_loop(), 0.0
        while True:
            sent_at, data = await way.get()
            due = sent_at + self.delay_s
            if self.bytes_per_s:
                due = free_at = max(free_at, due) + len(data) / self.bytes_per_s
            if due > loop.time():
                await asyncio.sleep(due - loop.time())
            await self._flows.wait()
            if not data:
                if not writer.is_closing():
                    writer.write_eof()
                return
            if writer.is_closing():  # uvloop calls it no OSError to write there
                raise ConnectionResetError("the receiver is gone")
            writer.write(data)
            await writer.drain()


@contextlib.asynccontextmanager
async def listening(link: Link, host: str = "127.0.0.1", port: int = 0) -> AsyncIterator[str]:
    """The address at which the link is reached while the block lasts."""
    server = await asyncio.start_server(link.connect, host, port)
    try:
        yield f"{host}:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        await link.close()


@contextlib.asynccontextmanager
async def relay(address: str, delay_s: float) -> AsyncIterator[str]:
    """The address of a relay to `address`."""
    async with listening(Link(address, delay_s)) as near:
        yield near


async def _serve(routes: list[str]) -> None:
    links: dict[str, Link] = {}
    async with contextlib.AsyncExitStack() as stack:
        for route in routes:
            name, near, far = route.split("=")
            host, _, port = near.rpartition(":")
            links[name] = Link(far)
            await stack.enter_async_context(listening(links[name], host, int(port)))
        print("serving", flush=True)
        while line := await asyncio.to_thread(sys.stdin.readline):
            _set(links, json.loads(line))
            print("set", flush=True)


def _set(links: dict[str, Link], wanted: dict[str, object]) -> None:
    link = links[str(wanted.pop("link"))]
    if wanted.pop("cut", False):
        link.cut()
    for name, value in wanted.items():
        setattr(link, name, value)


if __name__ == "__main__":
    asyncio.run(_serve(sys.argv[1:]))
