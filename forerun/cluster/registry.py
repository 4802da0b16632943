"""The list of replicas that gateways read, over HTTP: `GET /targets` answers one host:port a line.

Gateways need no Ray for it, nor to be on its nodes. Prometheus reads from `GET /metrics-targets` where the replicas'
metrics are, for they take ports that are free.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

from forerun.errors import ConfigError

_POLL_S = 0.1  # until it notices that it is to close

_METRICS = "metrics-targets"

Addresses = Callable[[], Sequence[str]]


class Registry:
    """Answers from the moment it is made until closed; `lists` may change meanwhile what they return.

    metrics: for each job, where its metrics are scraped.
    """

    def __init__(self, host: str, port: int, lists: Mapping[str, Addresses], metrics: Mapping[str, Addresses]) -> None:
        try:
            self._server = ThreadingHTTPServer((host, port), _handler(lists, metrics))
        except OSError as error:
            told = f"cannot list replicas on {host}:{port}: {error}"
            raise ConfigError(f"{told}; choose another --registry-port or --registry-host") from error
        self.url = f"http://{host}:{self._server.server_port}"
        self.metrics_url = f"{self.url}/{_METRICS}"
        self._thread = Thread(target=self._server.serve_forever, args=(_POLL_S,), name="registry", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stops answering: gateways keep what they read last."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _handler(lists: Mapping[str, Addresses], metrics: Mapping[str, Addresses]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = 10.0

        def do_GET(self) -> None:
            name = self.path.strip("/")
            if name == _METRICS:
                self._answer(200, "application/json", _scraped(metrics))
            elif name in lists:
                self._answer(200, "text/plain", "".join(f"{address}\n" for address in lists[name]()))
            else:
                self._answer(404, "text/plain", "no such list\n")

        def _answer(self, status: int, kind: str, body: str) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, format: str, *args: object) -> None:
            """Gateways ask every few seconds: that is no news."""

    return Handler


def _scraped(metrics: Mapping[str, Addresses]) -> str:
    """As https://prometheus.io/docs/prometheus/latest/http_sd/ wants it."""
    return json.dumps([{"targets": list(addresses()), "labels": {"job": job}} for job, addresses in metrics.items()])
