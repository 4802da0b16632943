"""A service's process: loads, listens, keeps its health honest, drains on SIGTERM; before it serves, ends at once."""

import asyncio
import logging
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol, TypeVar

import grpc
import uvloop

from forerun import config as settings
from forerun.errors import ForerunError
from forerun.rpc.certificates import certificates
from forerun.rpc.server import Server, ServerSettings, stop_on_signals
from forerun.serving import allocator, loading
from forerun.serving.drain import Drain
from forerun.serving.settings import ServiceConfig
from forerun.telemetry import exposition, logs, metrics, tracing
from forerun.telemetry.metrics import ServiceMetrics
from forerun.telemetry.tracing import Tracing

log = logging.getLogger(__name__)

MAX_HEARTBEAT_AGE_S = 60.0
"""A device thread that did not go round for this long hangs: no step of a sane batch takes it."""


class Worker(Protocol):
    """Who does the work: an engine or a drafting method."""

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def heartbeat_age_s(self) -> float:
        """Seconds since its thread last went round; 0 where it has none."""
        ...


@dataclass(frozen=True)
class Work:
    """What the process is there for. add_to adds the servicer."""

    worker: Worker
    add_to: Callable[[grpc.aio.Server, Drain], None]


C = TypeVar("C", bound=ServiceConfig)
Build = Callable[[C, ServiceMetrics, Tracing, Callable[[Exception], None]], Work]


def main(name: str, config_type: type[C], build: Build[C], argv: Sequence[str]) -> int:
    """Runs the service `name` until it is told to stop; returns the exit status, a start-up error on stderr."""
    allocator.keep_freed_memory()
    try:
        config = settings.parse(config_type, argv, f"{name}_service")
        logs.setup_logging(name, config.log_level, config.log_format, config.log_content)  # type: ignore[arg-type]
        return uvloop.run(_run(name, config, build))
    except ForerunError as error:
        sys.stderr.write(f"{name}: {error}\n")
        return 2


async def _run(name: str, config: C, build: Build[C]) -> int:
    stop = stop_on_signals()
    faults: list[Exception] = []
    loop = asyncio.get_running_loop()

    def on_device_fault(error: Exception) -> None:
        faults.append(error)
        loop.call_soon_threadsafe(stop.set)

    registry = metrics.new_registry(name)
    port = config.metrics_port
    exposed = exposition.start_metrics_server(registry, config.host, port) if port else None
    counted = ServiceMetrics(registry, name)
    spans = tracing.setup(f"forerun-{name}")
    server = Server(_listening(config), [f"forerun.v1.{name.capitalize()}Service"])
    counted.serving.set_function(lambda: server.serving)
    try:
        making = partial(build, config, counted, spans, on_device_fault)
        work = await loading.built(making, stop)
        drain = Drain()
        counted.open_streams.set_function(lambda: drain.num_open)
        work.add_to(server.grpc_server, drain)
        work.worker.start()
        bound = await server.start()
        await server.set_serving(True)
        log.info("serving", extra={"address": f"{config.host}:{bound}"})
        await _watch(server, work.worker, stop)
        drain.begin()
        await server.drain()
        await asyncio.to_thread(work.worker.stop)
    finally:
        spans.shutdown()
        if exposed is not None:
            exposed.close()
    return 1 if faults else 0


def _listening(config: ServiceConfig) -> ServerSettings:
    return ServerSettings(
        config.host,
        config.port,
        config.max_streams,
        config.reflection,
        config.grace_s,
        tls=certificates(config.tls_cert, config.tls_key, config.tls_ca),
        client_names=tuple(name.strip() for name in config.tls_client_names.split(",") if name.strip()),
        health_port=config.health_port,
    )


async def _watch(server: Server, worker: Worker, stop: asyncio.Event) -> None:
    """Health follows the device thread's heartbeat until the process is told to stop."""
    healthy = True
    while not stop.is_set():
        try:
            await asyncio.wait_for(stop.wait(), timeout=1.0)
        except TimeoutError:
            alive = worker.heartbeat_age_s() < MAX_HEARTBEAT_AGE_S
            if alive != healthy:
                healthy = alive
                await server.set_serving(alive)
