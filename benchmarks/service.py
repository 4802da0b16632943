"""One service of a pair, started for a benchmark as a process of its own."""

import contextlib
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator

import grpc

START_S = 900.0


@contextlib.contextmanager
def service(module: str, *flags: str, url: str = "", address: str = "") -> Iterator["subprocess.Popen[bytes]"]:
    """`python -m module flags` from when `url` answers 200, or `address` accepts connections, to the block's end."""
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen([sys.executable, "-m", module, *flags], stdout=log, stderr=log)
        try:
            ends = time.monotonic() + START_S
            while not (_answers(url) if url else _listens(address)):
                if process.poll() is not None or time.monotonic() > ends:
                    log.seek(0)
                    raise RuntimeError(f"{module} did not start:\n{log.read().decode(errors='replace')[-3000:]}")
                time.sleep(0.2)
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def _answers(url: str) -> bool:
    with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=30) as reply:
        return bool(reply.status == 200)
    return False


def _listens(address: str) -> bool:
    with contextlib.suppress(grpc.FutureTimeoutError), grpc.insecure_channel(address) as channel:
        grpc.channel_ready_future(channel).result(timeout=1)
        return True
    return False
