"""A service that hangs is noticed, one that is late once is not."""

import asyncio

import pytest

from forerun.cluster import pulse
from forerun.rpc.server import Server, ServerSettings
from tests.support import virtual_time


def lost_after(answers):
    """Seconds until it is noticed, where looks get these answers and then no more good ones."""

    async def noticed():
        left = list(answers)

        async def is_well():
            return left.pop(0) if left else False

        await pulse.until_lost(is_well)
        return asyncio.get_running_loop().time()

    return virtual_time.run(noticed())


@pytest.mark.parametrize(
    ("answers", "looks"), [([], 3), ([True], 4), ([False, False, True], 6), ([True, False, True, False, False], 6)]
)
def test_three_misses_in_a_row_are_a_loss(answers, looks):
    assert lost_after(answers) == looks * pulse.EVERY_S


async def test_health_is_what_the_service_says_and_silence_is_none():
    server = Server(ServerSettings("127.0.0.1", 0, 8, False, 0.0), ["forerun.v1.TargetService"])
    port = await server.start()
    assert not await pulse.is_serving(f"127.0.0.1:{port}")
    await server.set_serving(True)
    assert await pulse.is_serving(f"127.0.0.1:{port}")
    await server.drain()
    assert not await pulse.is_serving(f"127.0.0.1:{port}")
