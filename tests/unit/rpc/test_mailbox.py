"""One reader, many writers, deadlines without tasks."""

import asyncio

from forerun.rpc.mailbox import Mailbox
from tests.support.virtual_time import run


def test_items_come_in_order_and_a_deadline_gives_none():
    async def scenario():
        loop, mailbox = asyncio.get_running_loop(), Mailbox()
        assert await mailbox.get(loop.time() + 5) is None
        assert loop.time() == 5
        loop.call_later(1, mailbox.put, "a")
        loop.call_later(1, mailbox.put, "b")
        assert await mailbox.get(loop.time() + 5) == "a"
        assert loop.time() == 6
        assert await mailbox.get(loop.time()) == "b"
        assert await mailbox.get(loop.time() - 1) is None

    run(scenario())


def test_a_cancelled_reader_loses_nothing():
    async def scenario():
        loop, mailbox = asyncio.get_running_loop(), Mailbox()
        reader = asyncio.create_task(mailbox.get(loop.time() + 5))
        await asyncio.sleep(1)
        reader.cancel()
        await asyncio.gather(reader, return_exceptions=True)
        mailbox.put("a")
        assert await mailbox.get(loop.time() + 1) == "a"

    run(scenario())
