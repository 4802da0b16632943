"""What the system makes of a draft of known talent: its speed beside the cost model's promise.

    python -m benchmarks.oracle [--models bundled,1b] [--rounds 5] [--tokens 128]

Real target and gateway; the draft (benchmarks/oracle_draft.py) knows the target's greedy answers, errs at a set rate
and takes 0.1 of a target step for each token, on a device of its own. The cost model is fitted on bare rounds over the
same services (benchmarks/bare_rounds.py); the speed is that of gRPC Generate with K left to the gateway, in turn with
speculation off. Goals: 0.95 of the promise, 2.2x at acceptance 0.8, 3x at 0.9.
"""

import argparse
import asyncio
import contextlib
import json
import random
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc

from benchmarks import bare_rounds, report
from benchmarks.random_model import random_model
from benchmarks.service import free_port, service
from forerun.cost.rounds import CostModel, expected_tokens
from forerun.v1 import gateway_pb2, gateway_pb2_grpc

ACCEPTANCES = (0.6, 0.7, 0.8, 0.9)
DRAFT_COST = 0.1  # of a target step
NUM_PROMPTS = 4
TIMEOUT_S = 600.0


@dataclass
class Streamed:
    """An answer's ids and the moment at which each piece of it came."""

    ids: list[int] = field(default_factory=list)
    pieces: list[tuple[float, int]] = field(default_factory=list)

    @property
    def tokens_per_s(self) -> float:
        """Of all after the first piece."""
        num_tokens = sum(count for _, count in self.pieces[1:])
        return num_tokens / (self.pieces[-1][0] - self.pieces[0][0])


async def generate(address: str, prompt: list[int], num_tokens: int, speculate: bool) -> Streamed:
    """One greedy answer through the gateway."""
    request = gateway_pb2.GenerateRequest(
        tokens=gateway_pb2.TokenIds(ids=prompt),
        max_tokens=num_tokens,
        temperature=0,
        ignore_eos=True,
        speculative=gateway_pb2.Speculative(enabled=speculate),
    )
    answer = Streamed()
    async with grpc.aio.insecure_channel(address) as channel:
        async for piece in gateway_pb2_grpc.GatewayServiceStub(channel).Generate(request, timeout=TIMEOUT_S):
            if piece.token_ids:
                answer.ids.extend(piece.token_ids)
                answer.pieces.append((time.perf_counter(), len(piece.token_ids)))
    return answer


class Stage:
    """A running target, its answers, and what goes around it."""

    def __init__(self, model: str, target: str, folder: Path) -> None:
        self._model, self._target = model, target
        self._file, self.texts = folder / "answers.json", list[dict[str, list[int]]]()

    async def learn(self, num_tokens: int) -> None:
        """Has the target answer random prompts."""
        prompts = [[random.Random(i).randrange(1000, 20000) for _ in range(60)] for i in range(NUM_PROMPTS)]
        async with self.gateway() as address:
            texts = [await generate(address, prompt, num_tokens, False) for prompt in prompts]
        self.texts = [{"prompt": prompt, "answer": text.ids} for prompt, text in zip(prompts, texts, strict=True)]
        self._file.write_text(json.dumps(self.texts))

    @contextlib.asynccontextmanager
    async def gateway(self, draft: str = "") -> AsyncIterator[str]:
        """The address of a gateway over the target and this draft."""
        http, port = free_port(), free_port()
        flags = ("--model", self._model, "--http-port", str(http), "--grpc-port", str(port))
        peers = ("--target-addresses", self._target, "--draft-addresses", draft)
        with service("gateway", *flags, *peers, url=f"http://127.0.0.1:{http}/ready"):
            yield f"127.0.0.1:{port}"

    @contextlib.contextmanager
    def oracle(self, acceptance: float, step_s: float) -> Iterator[str]:
        """The address of an oracle draft."""
        port = free_port()
        flags = {"port": port, "model": self._model, "answers": self._file, "acceptance": acceptance, "step-s": step_s}
        arguments = [text for name, value in flags.items() for text in (f"--{name}", str(value))]
        with service("benchmarks.oracle_draft", *arguments, address=f"127.0.0.1:{port}"):
            yield f"127.0.0.1:{port}"

    async def bare(self, draft: str) -> CostModel:
        """The cost model of the target with this draft."""
        return await bare_rounds.measure(draft, self._target, self.texts[0]["prompt"])

    async def row(self, acceptance: float, step_s: float, rounds: int, num_tokens: int) -> dict[str, Any]:
        """Promise and measurement at one acceptance."""
        with self.oracle(acceptance, step_s) as draft:
            model = await self.bare(draft)
            with_draft, alone, num_changed = [], [], 0
            async with self.gateway(draft) as address:
                await generate(address, self.texts[0]["prompt"], num_tokens, True)
                for turn in range(rounds):
                    text = self.texts[turn % len(self.texts)]
                    alone.append((await generate(address, text["prompt"], num_tokens, False)).tokens_per_s)
                    streamed = await generate(address, text["prompt"], num_tokens, True)
                    with_draft.append(streamed.tokens_per_s)
                    num_changed += streamed.ids != text["answer"][:num_tokens]
        k = model.best_k(acceptance)
        promised = model.tokens_per_s(expected_tokens(acceptance, k), k)
        return {
            "best_k": k,
            "promised_speedup": round(promised / model.plain_tokens_per_s(), 3),
            "speedup": report.paired_ratio(with_draft, alone),
            "speed_over_promise": round(statistics.median(with_draft) / promised, 3),
            "texts_changed": num_changed,
            "step_ms": {rows: round(1e3 * seconds, 2) for rows, seconds in model.steps.items()},
            "draft_step_ms": round(1e3 * model.draft_step_s, 2),
            "trips_ms": [round(1e3 * trip, 2) for trip in (model.draft_trip_s, model.target_trip_s, model.plain_s)],
        }


async def measure(model: str, rounds: int, num_tokens: int) -> dict[str, Any]:
    """All acceptances on one target."""
    port = free_port()
    target = f"127.0.0.1:{port}"
    flags = ("--model", model, "--port", str(port), "--metrics-port", "0")
    with tempfile.TemporaryDirectory() as folder, service("target_service", *flags, address=target):
        stage = Stage(model, target, Path(folder))
        await stage.learn(2 * num_tokens)
        with stage.oracle(0.8, 0.001) as draft:
            step_s = DRAFT_COST * (await stage.bare(draft)).steps[1]
        figures = {}
        for acceptance in ACCEPTANCES:
            figures[str(acceptance)] = await stage.row(acceptance, step_s, rounds, num_tokens)
            print(model, acceptance, figures[str(acceptance)], flush=True)
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", default="bundled,1b")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=128)
    arguments = parser.parse_args()
    figures = {}
    for name in arguments.models.split(","):
        model = str(random_model()) if name == "1b" else name
        figures[name] = asyncio.run(measure(model, arguments.rounds, arguments.tokens))
    report.save("oracle", figures)


if __name__ == "__main__":
    main()
