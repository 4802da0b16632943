"""Never slower: tokens/s with speculation on over off, for 1 to 32 clients at once, through gRPC Generate.

    python -m benchmarks.concurrency [--rounds 4] [--window-s 10] [--clients 1 2 4 8 16 32]

Closed loop: each client asks again as soon as it was answered. On and off take turns on the same running pair, once the
gateway has met the load; K is its own choice. Goal: 0.95 at every point. Draws docs/concurrency.svg.
"""

import argparse
import asyncio
import itertools
import time
from pathlib import Path
from typing import Any

import grpc

from benchmarks import report
from benchmarks.coordinated import chat_prompts
from benchmarks.trio import running
from forerun.v1 import gateway_pb2, gateway_pb2_grpc

PLOT = Path(__file__).parents[1] / "docs" / "concurrency.svg"
GOAL = 0.95
NUM_TOKENS = 96
SETTLE_S = 4.0
LEARN_S = 20.0  # once at each load, as a gateway meets it once
TIMEOUT_S = 600.0


class Clients:
    """Clients of one gateway that ask the same prompts in the same order, whether speculation is on or off."""

    def __init__(self, address: str) -> None:
        self._channel = grpc.aio.insecure_channel(address)
        self._stub = gateway_pb2_grpc.GatewayServiceStub(self._channel)
        self._prompts = chat_prompts("bundled")

    async def rate(self, number: int, speculate: bool, window_s: float) -> float:
        """Tokens/s of `number` clients together, once they have settled."""
        arrivals: list[tuple[float, int]] = []
        tasks = [asyncio.create_task(self._client(i, speculate, arrivals)) for i in range(number)]
        await asyncio.sleep(SETTLE_S)
        start = time.monotonic()
        await asyncio.sleep(window_s)
        end = time.monotonic()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return sum(count for at, count in arrivals if start <= at < end) / (end - start)

    async def close(self) -> None:
        await self._channel.close()

    async def _client(self, index: int, speculate: bool, arrivals: list[tuple[float, int]]) -> None:
        for number in itertools.count(index):
            prompt = self._prompts[number % len(self._prompts)]
            request = gateway_pb2.GenerateRequest(
                tokens=gateway_pb2.TokenIds(ids=prompt),
                max_tokens=NUM_TOKENS,
                temperature=0,
                ignore_eos=True,
                speculative=gateway_pb2.Speculative(enabled=speculate),
            )
            async for piece in self._stub.Generate(request, timeout=TIMEOUT_S):
                arrivals.append((time.monotonic(), len(piece.token_ids)))


async def measure(address: str, numbers: list[int], rounds: int, window_s: float) -> dict[str, Any]:
    clients, figures = Clients(address), dict[str, Any]()
    for number in numbers:
        await clients.rate(number, True, LEARN_S)
        on, off = list[float](), list[float]()
        for turn in range(rounds):
            for speculate in (True, False) if turn % 2 else (False, True):
                (on if speculate else off).append(await clients.rate(number, speculate, window_s))
        figures[f"{number} clients"] = {
            "on over off": report.paired_ratio(on, off),
            "tokens/s off": round(sorted(off)[len(off) // 2], 1),
        }
        print(number, figures[f"{number} clients"], flush=True)
    await clients.close()
    return figures


def draw(figures: dict[str, Any]) -> None:
    """The ratio by the number of clients, with its range."""
    from matplotlib import pyplot

    numbers = [int(name.split()[0]) for name in figures]
    ratios = [point["on over off"] for point in figures.values()]
    medians = [ratio["median"] for ratio in ratios]
    ranges = [[m - r["min"] for m, r in zip(medians, ratios, strict=True)]]
    ranges.append([r["max"] - m for m, r in zip(medians, ratios, strict=True)])
    figure, axes = pyplot.subplots(figsize=(6, 3.5))
    axes.errorbar(numbers, medians, yerr=ranges, marker="o", capsize=3)
    axes.axhline(GOAL, linestyle="--", linewidth=1, color="grey", label=f"goal {GOAL}")
    axes.set_xscale("log", base=2)
    axes.set_xticks(numbers, [str(number) for number in numbers])
    axes.set(xlabel="clients at once", ylabel="tokens/s, speculation on over off", ylim=(0, None))
    axes.legend()
    figure.tight_layout()
    figure.savefig(PLOT, metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--window-s", type=float, default=10.0)
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 2, 4, 8, 16, 32])
    arguments = parser.parse_args()
    with running() as trio:
        figures = asyncio.run(measure(trio.grpc, arguments.clients, arguments.rounds, arguments.window_s))
    report.save("concurrency", figures)
    draw(figures)


if __name__ == "__main__":
    main()
