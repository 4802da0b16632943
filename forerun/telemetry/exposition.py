"""How metrics leave a process: rendered for an HTTP framework, or served by a thread of their own."""

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    generate_latest,
    start_http_server,
)

from forerun.errors import ConfigError


def render(registry: CollectorRegistry) -> tuple[bytes, str]:
    """The body and the content type of a scrape."""
    return generate_latest(registry), CONTENT_TYPE_LATEST


class MetricsServer:
    """Serves /metrics until closed; `port` is the bound one."""

    def __init__(self, registry: CollectorRegistry, host: str, port: int) -> None:
        self._server, self._thread = start_http_server(port, host, registry)
        self.port: int = self._server.server_port

    def close(self) -> None:
        """Stops listening; the port is free afterwards."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def start_metrics_server(registry: CollectorRegistry, host: str, port: int) -> MetricsServer:
    """Serves `registry` on host:port, port 0 for a free one. Raises ConfigError where it cannot."""
    try:
        return MetricsServer(registry, host, port)
    except (OSError, OverflowError) as error:
        told = f"cannot serve metrics on {host}:{port}: {error}"
        raise ConfigError(f"{told}; choose another --metrics-port or --host") from error
