"""The links that network tests are made of do what they say."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from benchmarks.relay import Link, listening


@asynccontextmanager
async def connected(link_of=Link):
    """A link to a server that echoes, and a connection over it."""

    async def echo(reader, writer):
        while data := await reader.read(1 << 16):
            writer.write(data)
        writer.close()

    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    link = link_of(f"127.0.0.1:{server.sockets[0].getsockname()[1]}")
    async with listening(link) as address:
        host, _, port = address.rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        try:
            yield link, reader, writer
        finally:
            writer.close()
    server.close()


async def echoed_s(reader, writer, data=b"x"):
    """Seconds until all of it is back."""
    loop = asyncio.get_running_loop()
    started = loop.time()
    writer.write(data)
    assert await reader.readexactly(len(data)) == data
    return loop.time() - started


async def test_a_byte_takes_the_delay_in_both_directions_and_a_change_holds_at_once():
    async with connected() as (link, reader, writer):
        assert await echoed_s(reader, writer) < 0.3
        link.delay_s = 0.15
        assert await echoed_s(reader, writer) >= 0.3
        link.delay_s = 0.0
        assert await echoed_s(reader, writer) < 0.3


async def test_bytes_keep_their_order_and_come_no_faster_than_the_rate():
    async with connected() as (link, reader, writer):
        link.bytes_per_s = 1_000_000.0
        data = bytes(range(256)) * 1000
        assert await echoed_s(reader, writer, data) >= 0.25


async def test_a_partition_tells_nobody_and_what_was_sent_comes_when_it_heals():
    async with connected() as (link, reader, writer):
        await echoed_s(reader, writer)
        link.held = True
        writer.write(b"before")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(reader.readexactly(1), 0.1)
        link.held = False
        assert await reader.readexactly(6) == b"before"


async def test_a_cut_resets_the_connection():
    async with connected() as (link, reader, writer):
        await echoed_s(reader, writer)
        link.cut()
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await reader.readexactly(1)


async def test_an_end_of_the_sender_arrives_after_what_it_sent():
    async with connected() as (link, reader, writer):
        link.delay_s = 0.02
        writer.write(b"last words")
        writer.write_eof()
        assert await reader.read() == b"last words"


async def test_nobody_at_the_other_end_ends_the_connection():
    async with listening(Link("127.0.0.1:1")) as address:
        reader, writer = await asyncio.open_connection(*address.split(":"))
        assert await reader.read() == b""
        writer.close()
