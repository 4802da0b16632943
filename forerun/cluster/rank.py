"""The actor: one service process on the node where Ray placed it.

The service is the ordinary one in a process of its own, not a thread of the actor: it owns its signals, its event loop
and its torch settings as everywhere else, drains on SIGTERM, and when it dies the actor lives to say why. When the
actor dies, the system kills the process, so that what Ray counts as free is free.
"""

import asyncio
import signal
import socket
import urllib.request
from collections.abc import Mapping, Sequence
from typing import Any

from forerun.cluster import pulse
from forerun.cluster.load import Load, parse
from forerun.models.cache_folder import cache_folder
from forerun.up import readiness
from forerun.up.child import ENVIRON, Child, Service

_LOOK_S = 5.0
_LAST_LINES = 5


class Rank:
    """One process: a whole replica, or a part of one. host: the node's address; rank 0's is the replica's."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._host = _host()
        self._port, self._metrics_port, self._health_port, self._meeting_port = _free_ports(self._host, 4)
        self._arguments: tuple[str, ...] = ()
        self._child: Child | None = None
        self._watching: asyncio.Task[None] | None = None

    async def address(self) -> str:
        """Where it will serve."""
        return f"{self._host}:{self._port}"

    async def metrics_address(self) -> str:
        """Where its /metrics will be."""
        return f"{self._host}:{self._metrics_port}"

    async def meeting(self) -> tuple[str, int]:
        """Where the ranks of this one's replica meet."""
        return self._host, self._meeting_port

    async def arguments(self) -> tuple[str, ...]:
        """What it was started with."""
        return self._arguments

    async def node(self) -> str:
        """The node that it is on."""
        import ray

        return str(ray.get_runtime_context().get_node_id())

    async def start(self, arguments: Sequence[str], environ: Mapping[str, str]) -> None:
        """Starts `python -m ARGUMENTS`, told where to listen."""
        self._arguments = tuple(arguments)
        ports = {"--port": self._port, "--metrics-port": self._metrics_port, "--health-port": self._health_port}
        listening = ("--host", self._host, *(text for flag, port in ports.items() for text in (flag, str(port))))
        service = Service(
            self._name, (*arguments, *listening), self._port, {**ENVIRON, **environ}, death_signal=signal.SIGKILL
        )
        self._child = await Child.start(service, cache_folder("logs"))

    async def serving(self) -> None:
        """Returns once it listens, which services do when their model is loaded; from then on it must not hang."""
        await readiness.listening(self._host, self._port)
        self._watching = self._watching or asyncio.create_task(self._watch(self._running()))

    async def ended(self) -> str:
        """Returns when the process has ended: what it said last."""
        child = self._running()
        status = await child.wait()
        return f"{self._name} ended with status {status}: {child.last_words(_LAST_LINES) or 'it printed nothing'}"

    async def load(self) -> Load:
        """How busy the service is."""
        return parse(await asyncio.to_thread(self._scrape))

    async def stop(self, timeout_s: float) -> None:
        """Has it drain and end; kills it where it does not within timeout_s."""
        if self._watching is not None:
            self._watching.cancel()  # one that drains says that it does not serve
        if self._child is not None:
            await self._child.stop(timeout_s)

    async def _watch(self, child: Child) -> None:
        await pulse.until_lost(lambda: pulse.is_serving(f"{self._host}:{self._health_port}"))
        await child.stop(0.0)

    def _running(self) -> Child:
        if self._child is None:
            raise RuntimeError(f"{self._name} was not started")
        return self._child

    def _scrape(self) -> str:
        url = f"http://{self._host}:{self._metrics_port}/metrics"
        with urllib.request.urlopen(url, timeout=_LOOK_S) as answer:
            return str(answer.read().decode())


def _host() -> str:
    import ray

    all_nodes: Any = ray.nodes
    here = ray.get_runtime_context().get_node_id()
    return next(str(node["NodeManagerAddress"]) for node in all_nodes() if node["NodeID"] == here)


def _free_ports(host: str, count: int) -> list[int]:
    """Ports that are free now; a replica that finds one taken after all ends and is started with others."""
    sockets = [socket.create_server((host, 0)) for _ in range(count)]
    ports = [int(held.getsockname()[1]) for held in sockets]
    for held in sockets:
        held.close()
    return ports
