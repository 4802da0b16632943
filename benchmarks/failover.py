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
from dataclasses import dataclass, field
from typing import Any

import grpc

from benchmarks import report
from benchmarks.coordinated import chat_prompts
from benchmarks.replica_process import ReplicaProcess
from benchmarks.service import free_port, service
from forerun.v1 import gateway_pb2, gateway_pb2_grpc

FAULTS = (
    ("target", "killed", signal.SIGKILL),
    ("target", "told to stop", signal.SIGTERM),
    ("target", "hangs", signal.SIGSTOP),
    ("draft", "killed", signal.SIGKILL),
    ("draft", "hangs", signal.SIGSTOP),
)
ANY_TARGET = "failover of any kind"
SETTLE_S = 3.0  # between the return of a victim and the next fault
AROUND_S = 15.0  # in which a stream that was moved has gone on
TIMEOUT_S = 300.0


@dataclass(frozen=True)
class Ask:
    """A request whose text is known before any fault."""

    prompt: tuple[int, ...]
    sampling: dict[str, Any]


@dataclass
class Streamed:
    """One answer as it came; error is empty where it came to its end."""

    ids: list[int] = field(default_factory=list)
    arrivals: list[float] = field(default_factory=list)
    error: str = ""

    def added_s(self, at: float) -> float:
        """The longest gap around the moment, less the usual one."""
        gaps = [(a, b - a) for a, b in itertools.pairwise(self.arrivals) if b > at and a < at + AROUND_S]
        usual = statistics.median(b - a for a, b in itertools.pairwise(self.arrivals))
        return max((gap for _, gap in gaps), default=usual) - usual

    def ran_at(self, moment: float) -> bool:
        """Whether it was under way then."""
        return len(self.arrivals) > 2 and self.arrivals[0] < moment < self.arrivals[-1]


class Load:
    """Streams that never pause; texts are those of `expected`, or counted as changed."""

    def __init__(self, address: str, asks: Sequence[Ask], num_tokens: int) -> None:
        self._address, self._asks, self._num_tokens = address, asks, num_tokens
        self.expected: dict[int, list[int]] = {}
        self.done: list[tuple[int, Streamed]] = []
        self.stopped = False

    async def learn(self) -> None:
        """Every text, without a draft and without a fault."""
        for index, ask in enumerate(self._asks):
            answer = await self._generate(ask, speculate=False)
            if answer.error:
                raise RuntimeError(answer.error)
            self.expected[index] = answer.ids

    async def run(self, turn: int) -> None:
        """One stream after another until stopped."""
        for index in itertools.cycle(range(turn, turn + len(self._asks))):
            if self.stopped:
                return
            index %= len(self._asks)
            self.done.append((index, await self._generate(self._asks[index], speculate=True)))

    @property
    def num_lost(self) -> int:
        """Answers that ended with an error."""
        return sum(bool(answer.error) for _, answer in self.done)

    @property
    def num_changed(self) -> int:
        """Answers with another text than before the faults."""
        return sum(not answer.error and answer.ids != self.expected[index] for index, answer in self.done)

    async def _generate(self, ask: Ask, speculate: bool) -> Streamed:
        request = gateway_pb2.GenerateRequest(
            tokens=gateway_pb2.TokenIds(ids=ask.prompt),
            max_tokens=self._num_tokens,
            ignore_eos=True,
            speculative=gateway_pb2.Speculative(enabled=speculate),
            **ask.sampling,
        )
        answer = Streamed()
        async with grpc.aio.insecure_channel(self._address) as channel:
            try:
                async for piece in gateway_pb2_grpc.GatewayServiceStub(channel).Generate(request, timeout=TIMEOUT_S):
                    if piece.token_ids:
                        answer.ids.extend(piece.token_ids)
                        answer.arrivals.append(time.monotonic())
            except grpc.RpcError as error:
                answer.error = f"{error.code().name}: {error.details()}"  # type: ignore[attr-defined]
        return answer


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
        await asyncio.sleep(AROUND_S / 2)
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
