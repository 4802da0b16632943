"""A link that takes its time: a TCP relay whose every byte is under way for a set delay, in both directions."""

import asyncio
import contextlib
from collections.abc import AsyncIterator


@contextlib.asynccontextmanager
async def relay(address: str, delay_s: float) -> AsyncIterator[str]:
    """The address of a relay to `address`."""
    host, _, port = address.rpartition(":")
    writers: list[asyncio.StreamWriter] = []
    pumps: list[asyncio.Task[None]] = []

    async def connect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection(host, int(port))
        writers.extend((writer, far_writer))
        for source, sink in ((reader, far_writer), (far_reader, writer)):
            pumps.append(asyncio.create_task(_pump(source, sink, delay_s)))

    server = await asyncio.start_server(connect, "127.0.0.1", 0)
    try:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for writer in writers:
            writer.transport.abort()
        await asyncio.gather(*pumps, return_exceptions=True)


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, delay_s: float) -> None:
    loop = asyncio.get_running_loop()
    while data := await reader.read(1 << 16):
        loop.call_later(delay_s, writer.write, data)
    loop.call_later(delay_s, writer.close)
