"""A real HTTP server on a real socket, in the test's own loop."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import uvicorn


class _Server(uvicorn.Server):
    """Says when it listens; leaves the process's signals alone."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listening = asyncio.Event()

    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets)
        self.listening.set()


@asynccontextmanager
async def serving(app: Any) -> AsyncIterator[str]:
    """Serves `app` on a free port; gives its base URL."""
    config = uvicorn.Config(app, host="127.0.0.1", port=0, log_level="warning", lifespan="off", ws="none")
    server = _Server(config)
    task = asyncio.create_task(server._serve())
    await server.listening.wait()
    try:
        port = server.servers[0].sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        server.force_exit = True
        await task
