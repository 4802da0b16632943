"""A network that takes its time: a relay on a free port that delivers every byte later, in order."""

import asyncio
from contextlib import asynccontextmanager


@asynccontextmanager
async def slow_link(address, delay_s):
    """The address of a relay to `address` whose every byte is `delay_s` under way, in both directions."""
    host, _, port = address.rpartition(":")
    ends, pumps = [], []

    async def relay(reader, writer):
        far_reader, far_writer = await asyncio.open_connection(host, int(port))
        ends.extend((writer, far_writer))
        for source, sink in ((reader, far_writer), (far_reader, writer)):
            pumps.append(asyncio.create_task(_pump(source, sink, delay_s)))

    server = await asyncio.start_server(relay, "127.0.0.1", 0)
    try:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for end in ends:
            end.transport.abort()
        await asyncio.gather(*pumps, return_exceptions=True)


async def _pump(reader, writer, delay_s):
    """Until `reader` ends, which ends `writer` as late as its last byte."""
    loop = asyncio.get_running_loop()
    while data := await reader.read(65536):
        loop.call_later(delay_s, writer.write, data)
    loop.call_later(delay_s, writer.close)
