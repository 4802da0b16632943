"""Draft, target and gateway for a benchmark: `forerun up` on ports of its own."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

START_S = 900.0


@dataclass(frozen=True)
class Trio:
    """Addresses of the running services: REST, gRPC, draft, target."""

    url: str
    grpc: str
    draft: str
    target: str


@contextlib.contextmanager
def running(flags: Sequence[str] = (), environ: dict[str, str] | None = None) -> Iterator[Trio]:
    """The three services with `flags` of `forerun up` and FORERUN_* settings, until the block ends."""
    ports = dict(zip(_PORTS, _free_ports(len(_PORTS)), strict=True))
    arguments = [text for name, port in ports.items() for text in (f"--{name}", str(port))]
    url = f"http://127.0.0.1:{ports['http-port']}"
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "forerun.cli", "up", *arguments, *flags],
            stdout=log,
            stderr=log,
            env={**os.environ, **(environ or {})},
        )
        try:
            _wait(process, url, log)
            yield Trio(url, *(f"127.0.0.1:{ports[name]}" for name in ("grpc-port", "draft-port", "target-port")))
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)


_PORTS = ("http-port", "grpc-port", "draft-port", "target-port", "draft-metrics-port", "target-metrics-port")


def _wait(process: "subprocess.Popen[bytes]", url: str, log: "tempfile._TemporaryFileWrapper[bytes]") -> None:
    ends = time.monotonic() + START_S
    while time.monotonic() < ends and process.poll() is None:
        with contextlib.suppress(OSError), urllib.request.urlopen(url + "/ready", timeout=30) as reply:
            if reply.status == 200:
                return
        time.sleep(0.2)
    log.seek(0)
    raise RuntimeError(f"the services did not start:\n{log.read().decode(errors='replace')[-3000:]}")


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for sock in sockets:
            sock.bind(("127.0.0.1", 0))
        return [sock.getsockname()[1] for sock in sockets]
