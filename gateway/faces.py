"""The gateway's two faces, REST and gRPC: both listen, both drain."""

import asyncio
import contextlib
import logging
import socket
from collections.abc import Iterator

import uvicorn
from starlette.types import ASGIApp

from forerun.errors import ConfigError
from forerun.rpc.certificates import Certificates, reloading_context
from forerun.rpc.server import Server, ServerSettings
from gateway import servicer
from gateway.api.core import Core
from gateway.config import GatewayConfig

log = logging.getLogger(__name__)


async def listen(
    config: GatewayConfig, tls: Certificates | None, core: Core, app: ASGIApp, stop: asyncio.Event
) -> None:
    """Serves both faces until `stop`, then refuses what comes and lets running requests end."""
    server = Server(_settings(config, core, tls), ["forerun.v1.GatewayService"])
    servicer.add_to(server.grpc_server, core)
    http_socket = _http_socket(config)
    await server.start()
    http = _HttpServer(_http_config(config, app, tls))
    serving = asyncio.create_task(http.serve([http_socket]))
    await server.set_serving(True)
    scheme = "http" if tls is None else "https"
    log.info("serving", extra={"address": f"{scheme}://{config.host}:{config.http_port}"})
    stopped = asyncio.create_task(stop.wait())
    await asyncio.wait({serving, stopped}, return_when=asyncio.FIRST_COMPLETED)
    await asyncio.gather(_drain(http, serving, core, config.grace_s), server.drain())
    stopped.cancel()


async def _drain(http: "_HttpServer", serving: asyncio.Task[None], core: Core, grace_s: float) -> None:
    """Answers 503 while requests still run, for balancers that have not noticed yet; then stops listening."""
    core.admission.drain()
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(core.admission.idle(), grace_s)
    http.should_exit = True
    await serving


class _HttpServer(uvicorn.Server):
    """uvicorn without its signal handlers: the process has its own."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _settings(config: GatewayConfig, core: Core, tls: Certificates | None) -> ServerSettings:
    return ServerSettings(
        config.host,
        config.grpc_port,
        config.max_streams,
        config.reflection,
        config.grace_s,
        "--grpc-port",
        tls=tls,
        max_receive_bytes=core.limits.body_bytes,
    )


def _http_config(config: GatewayConfig, app: ASGIApp, tls: Certificates | None) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        ws="none",
        server_header=False,
        timeout_graceful_shutdown=1,  # requests had their grace: this is for the last bytes of answers
        ssl_context_factory=None if tls is None else lambda settings, default: reloading_context(tls),
    )


def _http_socket(config: GatewayConfig) -> socket.socket:
    """Listens for REST. Raises ConfigError, naming the flag, where that port cannot be had."""
    family = socket.AF_INET6 if ":" in config.host else socket.AF_INET
    try:
        return socket.create_server((config.host, config.http_port), family=family)
    except (OSError, OverflowError) as error:
        address = f"{config.host}:{config.http_port}"
        raise ConfigError(f"cannot listen on {address}: {error}; choose another --http-port or --host") from error
