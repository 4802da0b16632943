"""A client that stops reading keeps no place from others, and is not waited for for ever."""

import asyncio
import json

from gateway.api.core import Core
from gateway.api.http import STALLED_S
from gateway.api.limits import Limits
from gateway.app import create_app
from tests.support.byte_text import byte_model, byte_text
from tests.support.fake_coordinator import FakeCoordinator
from tests.support.virtual_time import run

TEXT = byte_text()
SAID = [*TEXT.encode("hello")]


class Client:
    """Asks for a stream; `reads` says whether it takes more than the first event of the answer."""

    def __init__(self, n=1, reads=True):
        self._body = json.dumps({"prompt": "x", "max_tokens": len(SAID), "n": n, "stream": True}).encode()
        self._reads, self._asked = reads, False
        self.status, self.received = None, b""

    async def ask(self, app):
        headers = [(b"content-type", b"application/json")]
        scope = {"type": "http", "method": "POST", "path": "/v1/completions", "headers": headers, "query_string": b""}
        await app(scope, self._receive, self._send)
        return self

    async def _receive(self):
        if self._asked:
            await asyncio.Event().wait()
        self._asked = True
        return {"type": "http.request", "body": self._body, "more_body": False}

    async def _send(self, message):
        self.status = message.get("status", self.status)
        if self.received and not self._reads:
            await asyncio.Event().wait()
        self.received += message.get("body", b"")


def test_a_client_that_stops_reading_gives_its_places_back_when_its_choices_end():
    async def serve():
        limits = Limits(running_choices=2, waiting_requests=0)
        core = Core(FakeCoordinator(lambda request: SAID), TEXT, byte_model(), limits)
        app = create_app(core)
        stalled = Client(n=2, reads=False)
        first = asyncio.create_task(stalled.ask(app))
        await asyncio.sleep(STALLED_S / 2)
        assert (await Client(n=2).ask(app)).status == 200
        assert not first.done() and stalled.received
        await asyncio.sleep(STALLED_S)
        assert first.done() and first.exception() is None
        async with asyncio.timeout(1):
            await core.admission.idle()

    run(serve())
