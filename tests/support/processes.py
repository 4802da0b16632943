"""Real draft, target and gateway processes on free ports, started when a test first asks and stopped at the end."""

import atexit
import functools
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from contextlib import ExitStack
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
START_S = 90.0
STOP_S = 20.0
TINY = ("--precision", "fp32", "--threads", "1", "--metrics-port", "0")
_QUIET = {
    "OMP_NUM_THREADS": "1",
    "OMP_WAIT_POLICY": "passive",
    "HF_HUB_OFFLINE": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "FORERUN_COMPILE": "off",
}
_HEAVY = ("draft_service", "target_service")


@functools.cache
def _zygote():
    from tests.support.zygote import Zygote

    zygote = Zygote({**_clean_environment(), **_QUIET}, ROOT)
    atexit.register(zygote.close)
    return zygote


class Process:
    """One `python -m module`; its output goes to a file that a failure quotes."""

    def __init__(self, module, *flags, environ=None):
        self.module = module
        self._log = tempfile.TemporaryFile()  # noqa: SIM115
        flags = [str(flag) for flag in flags]
        environ = {**_clean_environment(), **_QUIET, **(environ or {})}
        if module in _HEAVY and all(environ[name] == value for name, value in _QUIET.items()):
            self.popen = _zygote().start(module, flags, environ, self._log)
            return
        self.popen = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-m", module, *flags],
            cwd=ROOT,
            env=environ,
            stdout=self._log,
            stderr=subprocess.STDOUT,
        )

    def log(self):
        """All that it printed so far."""
        self._log.seek(0)
        return self._log.read().decode(errors="replace")

    def until_logged(self, words):
        """Returns when its output holds `words`."""
        deadline = time.monotonic() + START_S
        while words not in self.log():
            self.check_alive()
            if time.monotonic() > deadline:
                raise TimeoutError(f"{words!r} is not in:\n{self.log()[-4000:]}")
            time.sleep(0.02)

    def wait(self, timeout_s=START_S):
        """Its exit status."""
        return self.popen.wait(timeout_s)

    def terminate(self):
        """Sends SIGTERM and returns the exit status; kills it where that takes too long."""
        if self.popen.poll() is None:
            self.popen.send_signal(signal.SIGTERM)
        try:
            return self.popen.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.popen.kill()
            self.popen.wait()
            raise

    def kill(self):
        """Sends SIGKILL where it still runs."""
        self.popen.kill()
        self.popen.wait()

    def close(self):
        """Forgets its output."""
        self._log.close()

    def check_alive(self):
        """Raises with its output where it ended."""
        if self.popen.poll() is not None:
            raise RuntimeError(f"{self.module} exited with {self.popen.returncode}:\n{self.log()[-4000:]}")


class Service(Process):
    """A draft or a target; `address` answers once `ready` returned."""

    def __init__(self, module, port, *flags, environ=None):
        super().__init__(module, "--port", port, *flags, environ=environ)
        self.address = f"127.0.0.1:{port}"

    def ready(self):
        """Returns self when gRPC health says SERVING."""
        import grpc
        from grpc_health.v1 import health_pb2, health_pb2_grpc

        deadline = time.monotonic() + START_S
        with grpc.insecure_channel(self.address, options=(("grpc.max_reconnect_backoff_ms", 200),)) as channel:
            stub = health_pb2_grpc.HealthStub(channel)
            while True:
                self.check_alive()
                try:
                    reply = stub.Check(health_pb2.HealthCheckRequest(), wait_for_ready=True, timeout=2)
                    if reply.status == health_pb2.HealthCheckResponse.SERVING:
                        return self
                except grpc.RpcError:
                    pass
                if time.monotonic() > deadline:
                    raise TimeoutError(f"{self.module} is not serving:\n{self.log()[-4000:]}")


class Gateway(Process):
    """A gateway; `url` answers REST and `address` gRPC once `ready` returned."""

    def __init__(self, model, target, drafts, *flags, environ=None):
        from tests.support.ports import free_ports

        http, port = free_ports(2)
        self.url, self.address = f"http://127.0.0.1:{http}", f"127.0.0.1:{port}"
        peers = ("--target-addresses", target, "--draft-addresses", ",".join(drafts))
        super().__init__(
            "gateway", "--model", model, *peers, "--http-port", http, "--grpc-port", port, *flags, environ=environ
        )

    def ready(self):
        """Returns self when /ready answers 200."""
        deadline = time.monotonic() + START_S
        while not self._answers():
            self.check_alive()
            if time.monotonic() > deadline:
                raise TimeoutError(f"the gateway is not ready:\n{self.log()[-4000:]}")
        return self

    def _answers(self):
        try:
            with urllib.request.urlopen(f"{self.url}/ready", timeout=5) as answer:
                return answer.status == 200
        except OSError:
            time.sleep(0.05)
            return False


class Fleet:
    """Starts processes, each distinct command once, and stops them all at the end."""

    def __init__(self):
        self._stack = ExitStack()
        self._running = {}

    def target(self, model, *flags, precision=TINY):
        """A target that serves; the same one for equal arguments."""
        return self._service("target_service", "--model", model, *precision, *flags)

    def draft(self, model, target_model, *flags, precision=TINY):
        """A draft that serves; the same one for equal arguments."""
        return self._service("draft_service", "--model", model, "--target-model", target_model, *precision, *flags)

    def ngram(self, *flags):
        """A prompt-lookup draft."""
        return self._service("draft_service", "--method", "ngram", "--metrics-port", "0", *flags)

    def gateway(self, model, target, drafts=(), *flags):
        """A gateway before `target` and `drafts`."""
        key = ("gateway", str(model), target, *drafts, *flags)
        if key not in self._running:
            self._running[key] = self._own(Gateway(model, target, drafts, *flags))
        return self._running[key].ready()

    def start(self, module, *flags, environ=None):
        """A service of its own, not shared, not waited for."""
        from tests.support.ports import free_ports

        return self._own(Service(module, free_ports(1)[0], *flags, environ=environ))

    def close(self):
        """Stops everything."""
        self._stack.close()

    def _service(self, module, *flags):
        key = (module, *map(str, flags))
        if key not in self._running:
            self._running[key] = self.start(module, *flags)
        return self._running[key].ready()

    def _own(self, process):
        self._stack.callback(_end, process)
        return process


def _end(process):
    process.kill()
    process.close()


def _clean_environment():
    return {name: value for name, value in os.environ.items() if not name.startswith(("FORERUN_", "OTEL_"))}


@pytest.fixture(scope="session")
def fleet():
    """Every process that the session's tests share."""
    fleet = Fleet()
    yield fleet
    fleet.close()


@pytest.fixture(scope="session")
def tiny_target(fleet, tiny_pair):
    """The tiny target, fp32."""
    return fleet.target(tiny_pair.target)


@pytest.fixture(scope="session")
def tiny_draft(fleet, tiny_pair):
    """The tiny draft, fp32, support 16."""
    return fleet.draft(tiny_pair.draft, tiny_pair.target)


@pytest.fixture(scope="session")
def ahead_draft(fleet, tiny_pair):
    """The tiny draft again, for streams that wait for every branch: it is never hurried into fewer of them."""
    return fleet.draft(tiny_pair.draft, tiny_pair.target, "--max-sequences", 63)


@pytest.fixture(scope="session")
def tiny_ngram(fleet):
    """Prompt lookup that starts at one matching token."""
    return fleet.ngram("--ngram-min", "1")
