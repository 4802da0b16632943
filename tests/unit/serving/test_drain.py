"""A service that drains tells whom it serves, and takes nobody else."""

import pytest

from forerun.errors import ServiceUnavailable
from forerun.rpc.messages import Draining
from forerun.serving.drain import Drain
from forerun.serving.session import ReplyBox


async def test_open_streams_are_told_and_those_that_ended_are_not():
    drain, open_, ended = Drain(), ReplyBox(), ReplyBox()
    with drain.telling(ended):
        pass
    with drain.telling(open_):
        drain.begin()
        assert isinstance(await open_.get(1.0), Draining)
        assert await ended.get(0.01) is None


async def test_a_stream_that_opens_while_draining_is_refused_so_that_it_goes_elsewhere():
    drain = Drain()
    drain.begin()
    with pytest.raises(ServiceUnavailable, match="another replica"), drain.telling(ReplyBox()):
        pass
