"""The list of replicas that gateways read, over HTTP: `GET /targets` answers one host:port a line.

Gateways need no Ray for it, nor to be on its nodes.
"""

from collections.abc import Callable, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

from forerun.errors import ConfigError

_POLL_S = 0.1  # until it notices that it is to close

Addresses = Callable[[], Sequence[str]]


class Registry:
    """Answers from the moment it is made until closed; `lists` may change meanwhile what they return."""

    def __init__(self, host: str, port: int, lists: Mapping[str, Addresses]) -> None:
        try:
            self._server = ThreadingHTTPServer((host, port), _handler(lists))
        except OSError as error:
            told = f"cannot list replicas on {host}:{port}: {error}"
            raise ConfigError(f"{told}; choose another --registry-port or --registry-host") from error
        self.url = f"http://{host}:{self._server.server_port}"
        self._thread = Thread(target=self._server.serve_forever, args=(_POLL_S,), name="registry", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stops answering: gateways keep what they read last."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _handler(lists: Mapping[str, Addresses]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = 10.0

        def do_GET(self) -> None:
            listed = lists.get(self.path.strip("/"))
            body = "".join(f"{address}\n" for address in listed()) if listed else "no such list\n"
            self.send_response(200 if listed else 404)
            self.send_header("Content-Type", "text/plain")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, format: str, *args: object) -> None:
            """Gateways ask every few seconds: that is no news."""

    return Handler
