"""A service's process: loads, listens, keeps its health honest, drains on SIGTERM."""

import asyncio
import logging
import sys
from collections.abc import Callable
from typing import Protocol

import grpc
import uvloop

from forerun.errors import ForerunError
from forerun.rpc.server import Server, ServerSettings, stop_on_signals
from forerun.serving import allocator
from forerun.serving.settings import ServiceConfig
from forerun.telemetry import exposition, logs, metrics, tracing
from forerun.telemetry.metrics import ServiceMetrics
from forerun.telemetry.tracing import Tracing

log = logging.getLogger(__name__)

MAX_HEARTBEAT_AGE_S = 60.0
"""A device thread that did not go round for this long hangs: no step of a sane batch takes it."""


class Work(Protocol):
    """What the process is there for."""

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def heartbeat_age_s(self) -> float: ...

    def add_to(self, server: grpc.aio.Server) -> None:
        """Adds the servicer."""
        ...


Build = Callable[[ServiceMetrics, Tracing, Callable[[Exception], None]], Work]


def run(name: str, service_name: str, config: ServiceConfig, port: int, metrics_port: int, build: Build) -> int:
    """Runs a service until SIGTERM or SIGINT and returns the exit status; a start-up error is one line on stderr."""
    allocator.keep_freed_memory()
    logs.setup_logging(name, config.log_level, config.log_format)  # type: ignore[arg-type]
    try:
        return uvloop.run(_run(name, service_name, config, port, metrics_port, build))
    except ForerunError as error:
        sys.stderr.write(f"{name}: {error}\n")
        return 2


async def _run(name: str, service_name: str, config: ServiceConfig, port: int, metrics_port: int, build: Build) -> int:
    stop = stop_on_signals()
    faults: list[Exception] = []
    loop = asyncio.get_running_loop()

    def on_device_fault(error: Exception) -> None:
        faults.append(error)
        loop.call_soon_threadsafe(stop.set)

    settings = ServerSettings(config.host, port, config.max_streams, config.reflection, config.grace_s)
    registry = metrics.new_registry(name)
    exposed = exposition.start_metrics_server(registry, config.host, metrics_port) if metrics_port else None
    spans = tracing.setup(f"forerun-{name}")
    server = Server(settings, [service_name])
    try:
        work = await asyncio.to_thread(build, ServiceMetrics(registry, name), spans, on_device_fault)
        work.add_to(server.grpc_server)
        work.start()
        bound = await server.start()
        await server.set_serving(True)
        log.info("serving", extra={"address": f"{config.host}:{bound}"})
        await _watch(server, work, stop)
        await server.drain()
        await asyncio.to_thread(work.stop)
    finally:
        spans.shutdown()
        if exposed is not None:
            exposed.close()
    return 1 if faults else 0


async def _watch(server: Server, work: Work, stop: asyncio.Event) -> None:
    """Health follows the device thread's heartbeat until the process is told to stop."""
    healthy = True
    while not stop.is_set():
        try:
            await asyncio.wait_for(stop.wait(), timeout=1.0)
        except TimeoutError:
            alive = work.heartbeat_age_s() < MAX_HEARTBEAT_AGE_S
            if alive != healthy:
                healthy = alive
                await server.set_serving(alive)
