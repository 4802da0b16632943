"""The shell around every gRPC service: limits, keepalive, health, optional reflection, and an orderly end."""

import asyncio
import signal
from collections.abc import Sequence
from dataclasses import dataclass

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from forerun.errors import ConfigError
from forerun.rpc.callers import OnlyCallers
from forerun.rpc.certificates import Certificates
from forerun.rpc.credentials import server_credentials

MAX_MESSAGE_BYTES = 64 << 20  # prompt logprobs of a long prompt are the largest message
KEEPALIVE_MS, KEEPALIVE_TIMEOUT_MS = 10_000, 5_000
MAX_PORT = 65535
SPARE_CALLS = 64  # Info and health calls that find room beside a full house of streams

KEEPALIVE: tuple[tuple[str, int], ...] = (
    ("grpc.keepalive_time_ms", KEEPALIVE_MS),
    ("grpc.keepalive_timeout_ms", KEEPALIVE_TIMEOUT_MS),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
)
_SERVER = (*KEEPALIVE, ("grpc.http2.min_ping_interval_without_data_ms", 5_000), ("grpc.so_reuseport", 0))


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """Port 0 takes a free one. More than `max_streams` calls at once are refused with RESOURCE_EXHAUSTED.

    `flag` is where the port comes from; ConfigError names it for a number that gRPC would take modulo 65536.
    With `tls` a CA in it asks for client certificates; of those only `client_names` may call, where there are some.
    `health_port` serves health alone, without TLS, for probes that speak none; 0 is off.
    """

    host: str = "127.0.0.1"
    port: int = 0
    max_streams: int = 256
    reflection: bool = False
    grace_s: float = 10.0
    flag: str = "--port"
    tls: Certificates | None = None
    client_names: tuple[str, ...] = ()
    health_port: int = 0
    max_receive_bytes: int = MAX_MESSAGE_BYTES

    def __post_init__(self) -> None:
        for flag, port in ((self.flag, self.port), ("--health-port", self.health_port)):
            if not 0 <= port <= MAX_PORT:
                raise ConfigError(f"{flag} is a port, 0 to {MAX_PORT}, not {port}")
        if self.client_names and self.tls is None:
            raise ConfigError("--tls-client-names needs --tls-cert, --tls-key and --tls-ca")


class Server:
    """One aio server for the named services; add servicers to `grpc_server` before `start`.

    Health is NOT_SERVING until `set_serving(True)` (a model takes time to load) and again while draining.
    """

    def __init__(self, settings: ServerSettings, service_names: Sequence[str]) -> None:
        self._settings = settings
        self._names = tuple(service_names)
        self._health = health.aio.HealthServicer()  # type: ignore[attr-defined]
        self._serving = False
        self.grpc_server = grpc.aio.server(
            options=(*_SERVER, ("grpc.max_receive_message_length", settings.max_receive_bytes)),
            maximum_concurrent_rpcs=settings.max_streams + SPARE_CALLS,
            interceptors=[OnlyCallers(settings.client_names)] if settings.client_names else [],
        )
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self.grpc_server)
        self._probed: grpc.aio.Server | None = None
        if settings.reflection:
            _add_reflection(self._names, self.grpc_server)

    async def start(self) -> int:
        """Listens and returns the bound port; raises ConfigError where the port is taken."""
        settings = self._settings
        await self.set_serving(self._serving)
        port = _bind(self.grpc_server, settings.host, settings.port, settings.flag, settings.tls)
        if settings.health_port:
            self._probed = grpc.aio.server(options=_SERVER, maximum_concurrent_rpcs=SPARE_CALLS)
            health_pb2_grpc.add_HealthServicer_to_server(self._health, self._probed)
            _bind(self._probed, settings.host, settings.health_port, "--health-port")
            await self._probed.start()
        await self.grpc_server.start()
        return port

    @property
    def serving(self) -> bool:
        """What health checks hear."""
        return self._serving

    async def set_serving(self, serving: bool) -> None:
        """What health checks hear from now on, for each service and for the whole."""
        self._serving = serving
        status = health_pb2.HealthCheckResponse.SERVING if serving else health_pb2.HealthCheckResponse.NOT_SERVING
        for name in ("", *self._names):
            await self._health.set(name, status)

    async def drain(self) -> None:
        """NOT_SERVING at once; no new calls; running ones have `grace_s` to end, then are cancelled."""
        await self.set_serving(False)
        await self.grpc_server.stop(self._settings.grace_s)
        if self._probed is not None:
            await self._probed.stop(0)


def stop_on_signals() -> asyncio.Event:
    """An event of the running loop that SIGTERM or SIGINT sets."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    return stop


def _bind(server: grpc.aio.Server, host: str, port: int, flag: str, tls: Certificates | None = None) -> int:
    address = f"{host}:{port}"
    try:
        if tls is None:
            return server.add_insecure_port(address)
        return server.add_secure_port(address, server_credentials(tls))
    except RuntimeError as error:
        told = f"cannot listen on {address}, which is taken or not this machine's"
        raise ConfigError(f"{told}; choose another {flag} or --host") from error


def _add_reflection(names: Sequence[str], server: grpc.aio.Server) -> None:
    try:
        from grpc_reflection.v1alpha import reflection
    except ImportError as error:
        raise ConfigError("--reflection needs the package grpcio-reflection: pip install grpcio-reflection") from error
    reflection.enable_server_reflection((*names, reflection.SERVICE_NAME), server)
