"""Faults under load: what is lost (nothing), what changes (nothing), and how long a stream stands still.

    python -m benchmarks.failover [--faults 30] [--streams 4] [--tokens 160]

Real processes: targets, drafts and a gateway before them. Streams run without pause, greedy and seeded in turn, each
compared with its text from before the first fault. Faults take turns: a target is killed, told to stop, or hangs; a
draft is killed or hangs; the victim is the busiest, and back before the next fault. A stream's added latency is its
longest gap around the fault less its usual gap, of as many streams as the gateway says it moved.
"""

import argparse
import asyncio
import contextlib
import itertools
import signal
import statistics
import time
import urllib.request
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks import report
from benchmarks.coordinated import chat_prompts
from benchmarks.replica_process import ReplicaProcess
from benchmarks.service import free_port, service
from benchmarks.steady_load import AROUND_S, Ask, Load

FAULTS = (
    ("target", "killed", signal.SIGKILL),
    ("target", "told to stop", signal.SIGTERM),
    ("target", "hangs", signal.SIGSTOP),
    ("draft", "killed", signal.SIGKILL),
    ("draft", "hangs", signal.SIGSTOP),
)
ANY_TARGET = "failover of any kind"
SETTLE_S = 3.0  # between the return of a victim and the next fault


@dataclass
class Fault:
    """One fault that was injected, and how many sequences the gateway moved because of it."""

    service: str
    kind: str
    at: float
    num_moved: int = 0


class House:
    """Replicas of both services and a gateway that knows them."""

    def __init__(self, replicas: dict[str, list[ReplicaProcess]], metrics_url: str) -> None:
        self._replicas, self._metrics_url = replicas, metrics_url

    async def inject(self, service_name: str, kind: str, number: signal.Signals) -> Fault:
        """Strikes the busiest replica and brings it back."""
        victim = await asyncio.to_thread(busiest, self._replicas[service_name])
        before, fault = self.num_moved(), Fault(service_name, kind, time.monotonic())
        victim.strike(number)
        await asyncio.sleep(AROUND_S)
        fault.num_moved = self.num_moved() - before
        await asyncio.to_thread(victim.restore)
        await asyncio.sleep(SETTLE_S)
        return fault

    def num_moved(self) -> int:
        """Sequences that went to another target so far."""
        with urllib.request.urlopen(self._metrics_url, timeout=30) as reply:
            lines = reply.read().decode().splitlines()
        names = ("forerun_failovers_total ", "forerun_handovers_total ")
        return round(sum(float(line.split()[1]) for line in lines if line.startswith(names)))


def busiest(replicas: Sequence[ReplicaProcess]) -> ReplicaProcess:
    """The one with the most sequences."""
    return max(replicas, key=lambda replica: replica.num_sequences())


@contextlib.asynccontextmanager
async def running(arguments: argparse.Namespace) -> AsyncIterator[tuple[House, str]]:
    """The house and the gateway's gRPC address."""
    common = ("--threads", "1", "--metrics-port", "0", "--compile", arguments.compile)
    exact = (*common, "--deterministic", "--precision", arguments.precision)
    with contextlib.ExitStack() as stack:
        replicas = {
            "target": [ReplicaProcess("target_service", *exact) for _ in range(arguments.targets)],
            "draft": [ReplicaProcess("draft_service", *common) for _ in range(arguments.drafts)],
        }
        for replica in itertools.chain(*replicas.values()):
            replica.start()
            stack.callback(replica.end)
        http, port = free_port(), free_port()
        url = f"http://127.0.0.1:{http}"
        peers = [(f"--{name}", replica.address) for name, group in replicas.items() for replica in group]
        flags = ("--http-port", str(http), "--grpc-port", str(port), *itertools.chain(*peers))
        stack.enter_context(service("gateway", *flags, url=f"{url}/ready"))
        yield House(replicas, f"{url}/metrics"), f"127.0.0.1:{port}"


async def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """Injects the faults and says what came of them."""
    prompts = chat_prompts("bundled")[: arguments.prompts]
    asks = [Ask(p, s) for i, p in enumerate(prompts) for s in ({"temperature": 0.0}, {"seed": 100 + i})]
    async with running(arguments) as (house, address):
        load = Load(address, asks, arguments.tokens)
        await load.learn()
        streams = [asyncio.create_task(load.run(turn)) for turn in range(arguments.streams)]
        await asyncio.sleep(SETTLE_S)
        faults = []
        for turn in range(arguments.faults):
            faults.append(await house.inject(*FAULTS[turn % len(FAULTS)]))
            print(faults[-1], f"lost {load.num_lost}, changed {load.num_changed}", flush=True)
        load.stopped = True
        await asyncio.gather(*streams)
    return figures(load, faults)


def figures(load: Load, faults: Sequence[Fault]) -> dict[str, Any]:
    """The totals, and the added latency of moved streams by the kind of fault."""
    added = {ANY_TARGET: list[float](), **{f"{fault.service} {fault.kind}": list[float]() for fault in faults}}
    for fault in faults:
        around = sorted((answer.added_s(fault.at) for _, answer in load.done if answer.ran_at(fault.at)), reverse=True)
        moved = around[: fault.num_moved] if fault.service == "target" else around
        added[f"{fault.service} {fault.kind}"].extend(moved)
        if fault.service == "target":
            added[ANY_TARGET].extend(moved)
    errors = sorted({answer.error for _, answer in load.done if answer.error})
    return {
        "faults_injected": len(faults),
        "requests": len(load.done),
        "requests_lost": load.num_lost,
        "texts_changed": load.num_changed,
        "errors": errors,
        "added_latency": {kind: spread(seconds) for kind, seconds in added.items()},
    }


def spread(seconds: Sequence[float]) -> dict[str, float]:
    """Percentiles in milliseconds."""
    if len(seconds) < 2:
        return {"streams": len(seconds), **({"p50_ms": round(1e3 * seconds[0])} if seconds else {})}
    cuts = statistics.quantiles(seconds, n=100, method="inclusive")
    return {"streams": len(seconds), "p50_ms": round(1e3 * cuts[49]), "p99_ms": round(1e3 * cuts[98])}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--faults", type=int, default=30)
    parser.add_argument("--streams", type=int, default=4)
    parser.add_argument("--tokens", type=int, default=160)
    parser.add_argument("--prompts", type=int, default=3, help="each answered greedily and with a seed")
    parser.add_argument("--targets", type=int, default=2)
    parser.add_argument("--drafts", type=int, default=1)
    parser.add_argument("--precision", default="auto")
    parser.add_argument("--compile", default="auto")
    parser.add_argument("--save", default="failover", help="name of the results; empty saves none")
    arguments = parser.parse_args()
    found = asyncio.run(measure(arguments))
    print(
        f"faults injected: {found['faults_injected']} / requests lost: {found['requests_lost']} of "
        f"{found['requests']} / texts changed: {found['texts_changed']}"
    )
    for kind, latency in found["added_latency"].items():
        print(f"  {kind}: added latency of {latency}")
    if arguments.save:
        report.save(arguments.save, found)


if __name__ == "__main__":
    main()
