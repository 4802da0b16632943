"""Four times the load that fits: the admitted keep their pace, the rest wait or are told 429, nothing stays behind.

    python -m benchmarks.overload [--slots 8] [--rounds 3] [--window-s 20]

A gateway with `slots` places, asked by as many clients as fit, and by four times as many, in turn. The pace of an
answer is its mean time from token to token. Goal: within 20%. Afterwards no sequence and no block may be held.
"""

import argparse
import asyncio
import collections
import itertools
import statistics
import sys
import time
from dataclasses import dataclass, field
from typing import Any

import grpc

from benchmarks import report
from benchmarks.coordinated import chat_prompts
from benchmarks.trio import Trio, running
from forerun.rpc.clients import DraftClient, TargetClient
from forerun.v1 import gateway_pb2, gateway_pb2_grpc

OVER = 4
NUM_TOKENS = 64
TIMEOUT_S = 600.0
RETRY_S = 1.0
IDLE_S = 20.0
BUSY = (grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.UNAVAILABLE)


@dataclass
class Seen:
    """Paces and waits of finished answers, seconds; what the others were told."""

    paces: list[float] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)
    refusals: "collections.Counter[str]" = field(default_factory=collections.Counter)


async def client(stub: Any, prompts: list[tuple[int, ...]], index: int, seen: Seen) -> None:
    """Asks again as soon as it was answered, or a moment after it was refused."""
    for number in itertools.count(index):
        request = gateway_pb2.GenerateRequest(
            tokens=gateway_pb2.TokenIds(ids=prompts[number % len(prompts)]),
            max_tokens=NUM_TOKENS,
            temperature=0,
            ignore_eos=True,
        )
        asked, first, num_tokens = time.monotonic(), 0.0, 0
        try:
            async for piece in stub.Generate(request, timeout=TIMEOUT_S):
                if piece.token_ids and not num_tokens:
                    first, num_tokens = time.monotonic(), 1 - len(piece.token_ids)
                num_tokens += len(piece.token_ids)
        except grpc.aio.AioRpcError as error:
            seen.refusals[error.code().name] += 1
            if error.code() not in BUSY:
                raise
            await asyncio.sleep(RETRY_S)
            continue
        seen.paces.append((time.monotonic() - first) / max(num_tokens - 1, 1))
        seen.waits.append(first - asked)


async def loaded(stub: Any, number: int, window_s: float) -> Seen:
    """What `number` clients saw in the window."""
    prompts, seen = chat_prompts("bundled"), Seen()
    tasks = [asyncio.create_task(client(stub, prompts, i, seen)) for i in range(number)]
    await asyncio.wait(tasks, timeout=window_s, return_when=asyncio.FIRST_EXCEPTION)
    for task in tasks:
        if task.done():
            task.result()
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return seen


async def left(trio: Trio) -> dict[str, int]:
    """Sequences and blocks still held, once nobody asks any more."""
    peers = [TargetClient(trio.target), DraftClient(trio.draft)]
    ends = time.monotonic() + IDLE_S
    while True:
        infos = [await peer.info() for peer in peers]
        held = {
            "sequences": sum(info.num_running for info in infos),
            "blocks": sum(info.num_blocks - info.num_free_blocks for info in infos),
        }
        if not any(held.values()) or time.monotonic() > ends:
            await asyncio.gather(*(peer.close() for peer in peers))
            return held
        await asyncio.sleep(0.2)


async def measure(trio: Trio, slots: int, rounds: int, window_s: float) -> dict[str, Any]:
    fits, over = list[Seen](), list[Seen]()
    async with grpc.aio.insecure_channel(trio.grpc) as channel:
        stub = gateway_pb2_grpc.GatewayServiceStub(channel)
        await loaded(stub, 1, 5.0)
        for _ in range(rounds):
            fits.append(await loaded(stub, slots, window_s))
            over.append(await loaded(stub, OVER * slots, window_s))
    paces = [[statistics.median(seen.paces) for seen in runs] for runs in (over, fits)]
    refusals = sum((seen.refusals for seen in over), collections.Counter[str]())
    return {
        "slots": slots,
        "pace of the admitted, overloaded over full": report.paired_ratio(*paces),
        "answers, full": sum(len(seen.paces) for seen in fits),
        "answers, overloaded": sum(len(seen.paces) for seen in over),
        "wait for the first token, overloaded, median s": round(
            statistics.median(wait for seen in over for wait in seen.waits), 2
        ),
        "refused": dict(refusals),
        "left": await left(trio),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--slots", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--window-s", type=float, default=20.0)
    arguments = parser.parse_args()
    with running(environ={"FORERUN_MAX_SEQUENCES": str(arguments.slots)}) as trio:
        figures = asyncio.run(measure(trio, arguments.slots, arguments.rounds, arguments.window_s))
    for name, value in figures.items():
        print(f"{name}: {value}")
    report.save("overload", figures)
    if any(figures["left"].values()):
        sys.exit(f"still held: {figures['left']}")


if __name__ == "__main__":
    main()
