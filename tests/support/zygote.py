"""A process that has imported torch and transformers, and forks a service whenever a test starts one.

Those imports take seconds of a core, and the suite starts services by the dozen. What is forked is a process like any
other: its own environment, output, signals and exit status. When the tests end, however they end, their services go.

    python -m tests.support.zygote FD   # serves one line of requests on that socket
"""

import contextlib
import ctypes
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import threading
import time
import warnings

POLL_S = 0.02
NETNS = "TEST_NETNS"  # in its environment: the network namespace that the service is to run in
_LONGEST = 1 << 20
_CLONE_NEWNET = 0x40000000


class Zygote:
    """The parent's end; thread-safe. environ: what is read when modules are imported must be in there."""

    def __init__(self, environ, cwd):
        self._lock = threading.Lock()
        self._line, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            command = [sys.executable, "-m", "tests.support.zygote", str(theirs.fileno())]
            self._process = subprocess.Popen(command, env=environ, cwd=cwd, pass_fds=(theirs.fileno(),))

    def start(self, module, flags, environ, output):
        """`python -m module flags`, its output in the file `output`."""
        order = {"module": module, "flags": flags, "environ": environ}
        return Forked(self, self._ask(order, [output.fileno()]))

    def status_of(self, pid):
        """Its exit status, as Popen gives it; None while it runs."""
        return self._ask({"status_of": pid})

    def close(self):
        """All that was started ends with it."""
        self._line.close()
        self._process.wait()

    def _ask(self, order, files=()):
        with self._lock:
            socket.send_fds(self._line, [json.dumps(order).encode()], files)
            return json.loads(self._line.recv(_LONGEST))


class Forked:
    """What of subprocess.Popen is needed of a forked process."""

    def __init__(self, zygote, pid):
        self._zygote, self.pid, self.returncode = zygote, pid, None

    def poll(self):
        if self.returncode is None:
            self.returncode = self._zygote.status_of(self.pid)
        return self.returncode

    def wait(self, timeout=None):
        ends = None if timeout is None else time.monotonic() + timeout
        while self.poll() is None:
            if ends is not None and time.monotonic() > ends:
                raise subprocess.TimeoutExpired(f"process {self.pid}", timeout)
            time.sleep(POLL_S)
        return self.returncode

    def send_signal(self, number):
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self):
        self.send_signal(signal.SIGKILL)


def _serve(line):
    """Answers until the line closes. In a forked child it returns what is to be run."""
    running, ended = set(), {}
    while True:
        message, files, _, _ = socket.recv_fds(line, _LONGEST, 1)
        if not message:
            break
        order = json.loads(message)
        if "status_of" in order:
            _reap(running, ended)
            line.send(json.dumps(ended.get(order["status_of"])).encode())
            continue
        pid = os.fork()
        if pid == 0:
            line.close()
            _become(order["environ"], files[0])
            return order
        os.close(files[0])
        running.add(pid)
        line.send(json.dumps(pid).encode())
    for pid in running - set(ended):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return None


def _reap(running, ended):
    for pid in running - set(ended):
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            ended[pid] = os.waitstatus_to_exitcode(status)


def _become(environ, output):
    for number in (1, 2):
        os.dup2(output, number)
    os.close(output)
    if NETNS in environ:
        _enter(environ[NETNS])
    os.environ.clear()
    os.environ.update(environ)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)


def _enter(namespace):
    with open(f"/run/netns/{namespace}") as file:
        if ctypes.CDLL(None, use_errno=True).setns(file.fileno(), _CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), f"cannot enter {namespace}")


def main():
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the tests, which close the line
    warnings.simplefilter("ignore")
    import transformers.models.llama.modeling_llama  # noqa: F401

    import forerun.engine.build
    import forerun.serving.process  # noqa: F401

    order = _serve(socket.socket(fileno=int(sys.argv[1])))
    if order is not None:
        sys.argv = [order["module"], *order["flags"]]
        runpy.run_module(order["module"], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
