"""Hosts on one machine: network namespaces with a service each, and one between them in which every link is a relay.

    root ──── gateway ──── wire ──┬── draft
                                  ├── target0
                                  └── target1

The gateway reaches the others only through the wire's relays, whose links are set and cut from outside.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from tests.support.processes import ROOT, Process
from tests.support.zygote import NETNS

DRAFT_PORT, TARGET_PORT, HTTP_PORT, GRPC_PORT = 50051, 50052, 8000, 50050
FORKED = ("draft_service", "target_service")  # from a process that has imported torch
NAME = "targets.test"  # by which the gateway's resolver finds the targets


def why_not():
    """Why there can be no namespaces here; empty where there can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    if shutil.which("ip") is None:
        return "network namespaces need iproute2 (apt-get install iproute2)"
    probe = f"fr{os.getpid()}p"
    made = subprocess.run(["ip", "netns", "add", probe], capture_output=True, text=True)
    if made.returncode:
        return f"this system lets nobody make network namespaces: {made.stderr.strip()}"
    held = subprocess.run(["ip", "netns", "exec", probe, "true"], capture_output=True, text=True)
    subprocess.run(["ip", "netns", "del", probe], check=True)
    return f"this system lets nobody enter network namespaces: {held.stderr.strip()}" if held.returncode else ""


class HostProcess(Process):
    """A process on a host; it serves when it says so."""

    def __init__(self, namespace, module, *flags, **streams):
        if module in FORKED:
            super().__init__(module, *flags, environ={NETNS: namespace})
            return
        self.module, self._log = module, tempfile.TemporaryFile()  # noqa: SIM115
        self.popen = subprocess.Popen(
            ["ip", "netns", "exec", namespace, sys.executable, "-W", "ignore", "-m", module, *map(str, flags)],
            cwd=ROOT,
            env={**os.environ, "OMP_WAIT_POLICY": "passive"},
            **{"stdout": self._log, "stderr": self._log, **streams},
        )

    def close(self):
        """Forgets its output."""
        super().close()
        if self.module not in FORKED:
            for stream in filter(None, (self.popen.stdin, self.popen.stdout)):
                stream.close()

    def ready(self):
        """Returns self when it serves."""
        self.until_logged("serving")
        return self


class Hosts:
    """The network of this module's docstring; `links` are named draft, target0 and target1."""

    def __init__(self):
        self._stack = ExitStack()
        self._pid, self._net = os.getpid(), f"10.{64 + os.getpid() % 128}"
        self._etc = Path("/etc/netns") / self._name("gateway")
        self.peers = ("draft", "target0", "target1")
        self.url = f"http://{self._net}.9.2:{HTTP_PORT}"
        self.address = f"{self._net}.9.2:{GRPC_PORT}"

    def __enter__(self):
        with self._stack:
            for host in ("wire", "gateway", *self.peers):
                self._ip("netns", "add", self._name(host))
                self._stack.callback(self._ip, "netns", "del", self._name(host))
                self._ip("-n", self._name(host), "link", "set", "lo", "up")
            self._plug("gateway", "wire", 0)
            self._ip("-n", self._name("wire"), "address", "add", f"{self._net}.0.11/24", "dev", "gateway")
            for place, peer in enumerate(self.peers, 1):
                self._plug(peer, "wire", place)
            self._plug("gateway", None, 9)
            self._etc.mkdir(parents=True)
            self._stack.callback(shutil.rmtree, self._etc)
            self.name_targets(0, 1)
            self.relays = self._own(self._start_relays())
            self._stack = self._stack.pop_all()
        return self

    def __exit__(self, *_):
        self._stack.close()

    def near(self, peer):
        """Where the gateway finds `peer`."""
        port = DRAFT_PORT if peer == "draft" else TARGET_PORT
        return f"{self._net}.0.{11 if peer == 'target1' else 1}:{port}"

    def start(self, host, module, *flags):
        """A process on `host`."""
        return self._own(HostProcess(self._name(host), module, *flags))

    def set(self, link, **settings):
        """Sets or cuts a link; it is so when this returns."""
        self.relays.popen.stdin.write(json.dumps({"link": link, **settings}) + "\n")
        self.relays.popen.stdin.flush()
        assert self.relays.popen.stdout.readline() == "set\n"

    def heal(self):
        """Every link as fast as it can be."""
        for link in self.peers:
            self.set(link, delay_s=0.0, bytes_per_s=0.0, held=False)

    def name_targets(self, *places):
        """What the gateway's resolver answers for NAME from now on."""
        known = [f"{self.near(f'target{place}').rpartition(':')[0]} {NAME}\n" for place in places]
        hosts = self._etc / "hosts"
        with hosts.open("r+" if hosts.exists() else "w") as file:  # in place: the file is mounted in the namespace
            file.write("127.0.0.1 localhost\n" + "".join(known))
            file.truncate()

    def _start_relays(self):
        routes = [f"{peer}={self.near(peer)}={self._far(peer)}" for peer in self.peers]
        relays = HostProcess(
            self._name("wire"), "benchmarks.relay", *routes, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert relays.popen.stdout.readline() == "serving\n"
        return relays

    def _far(self, peer):
        place = 1 + self.peers.index(peer)
        return f"{self._net}.{place}.2:{DRAFT_PORT if peer == 'draft' else TARGET_PORT}"

    def _plug(self, host, other, place):
        """A cable between a host, .2, and the wire or this machine's own network, .1."""
        plug = host if other else f"fr{self._pid}"
        where = ("netns", self._name(other)) if other else ()
        self._ip("link", "add", plug, *where, "type", "veth", "peer", "name", f"eth{place}", "netns", self._name(host))
        near = ("-n", self._name(other)) if other else ()
        for prefix, device, end in ((near, plug, 1), (("-n", self._name(host)), f"eth{place}", 2)):
            self._ip(*prefix, "address", "add", f"{self._net}.{place}.{end}/24", "dev", device)
            self._ip(*prefix, "link", "set", device, "up")

    def _name(self, host):
        return f"fr{self._pid}-{host}"

    def _own(self, process):
        self._stack.callback(process.close)
        self._stack.callback(process.kill)
        return process

    @staticmethod
    def _ip(*arguments):
        subprocess.run(["ip", *arguments], check=True)
