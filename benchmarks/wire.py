"""What a round costs beyond the two models' own time, and what it weighs on the wire.

    python benchmarks/wire.py [--tokens 256]

The real coordinator in this process, draft and target in theirs, fixed K = 4. Overhead of a round = its duration - the
seconds that the draft says it worked - the target's forward: gRPC, queues, law, rule, hand-overs between threads. With
several streams a message may also wait for the step that serves its neighbours; that is part of the figure there.
Beside it stands what gRPC's own two round trips cost on this machine with nothing behind them.
"""

import argparse
import asyncio
import random
import statistics
from typing import Any

import uvloop
from prometheus_client import CollectorRegistry

from benchmarks import report
from benchmarks.bare_grpc import round_trip_ms
from benchmarks.trio import Trio, running
from forerun.models.resolve import resolve
from forerun.models.tokenizer_files import read_model_text
from forerun.rpc.clients import DraftClient, TargetClient
from forerun.rpc.messages import Verdict
from forerun.telemetry.metrics import GatewayMetrics
from forerun.types import SamplingParams, Verification
from gateway.coordinator import Coordinator
from gateway.generation import ChoiceRequest, SpeculationSettings
from gateway.learning import Learning
from gateway.pairing import OwnVocabulary, PairCheck
from gateway.questions import Answer
from gateway.replicas import Replicas
from gateway.watch import Watch

K = 4
RULES = {
    "match": SamplingParams(temperature=0, verification=Verification.MATCH),
    "rejection": SamplingParams(temperature=1, verification=Verification.REJECTION),
}


class Rounds:
    """Collects every round of every sequence by listening where the coordinator learns."""

    def __init__(self) -> None:
        self.overheads_s: list[float] = []
        self.proposal_bytes: list[int] = []
        self.drafted: list[int] = []
        self._models_s = 0.0
        learn, end = Learning.saw_round, Watch.end_round

        def saw_round(learning: Learning, answer: Answer, verdict: Verdict, wait_s: float | None) -> None:
            setattr(asyncio.current_task(), "models_s", answer.proposal.draft_s + verdict.step_s)  # noqa: B010
            self.proposal_bytes.append(answer.proposal.ByteSize())
            self.drafted.append(len(answer.proposal.tokens))
            learn(learning, answer, verdict, wait_s)

        def end_round(watch: Watch, span: Any, drafted: int, accepted: int, duration_s: float, *waits: float) -> None:
            models_s = getattr(asyncio.current_task(), "models_s", None)
            if models_s is not None and drafted:
                self.overheads_s.append(duration_s - models_s)
            end(watch, span, drafted, accepted, duration_s, *waits)

        Learning.saw_round, Watch.end_round = saw_round, end_round  # type: ignore[method-assign]

    def clear(self) -> None:
        """Forgets what came so far."""
        for values in (self.overheads_s, self.proposal_bytes, self.drafted):
            values.clear()


class Discard:
    """A sink that wants all tokens and keeps none."""

    def push(self, token: int, logprobs: object) -> None: ...

    def push_prompt_logprobs(self, logprobs: object) -> None: ...

    def flush(self) -> None: ...


async def run(coordinator: Coordinator, params: SamplingParams, num_streams: int, num_tokens: int) -> None:
    """Generates on num_streams sequences at once."""
    requests = [
        ChoiceRequest(
            prompt=tuple(random.Random(stream).randrange(1000, 20000) for _ in range(48)),
            params=params,
            seed=stream,
            max_tokens=num_tokens,
            speculation=SpeculationSettings(num_draft_tokens=K),
        )
        for stream in range(num_streams)
    ]
    await asyncio.gather(*(coordinator.run(request, Discard()) for request in requests))  # type: ignore[arg-type]


async def measure(trio: Trio, num_tokens: int) -> dict[str, Any]:
    """Overheads for 1, 16 and 64 streams and bytes for both rules."""
    text = read_model_text(resolve("bundled"))
    ours = OwnVocabulary(text.tokens, text.fingerprint, text.eos_token_ids)
    targets = Replicas([TargetClient(trio.target)], PairCheck(ours, "target"))
    drafts = Replicas([DraftClient(trio.draft)], PairCheck(ours, "draft"))
    await asyncio.gather(targets.start(), drafts.start())
    coordinator = Coordinator(targets, drafts, GatewayMetrics(CollectorRegistry()))
    rounds = Rounds()
    figures: dict[str, Any] = {"two bare gRPC round trips, p50 ms": round(2 * await round_trip_ms(), 2)}
    print(figures, flush=True)
    await run(coordinator, RULES["match"], 1, 32)
    for rule, params in RULES.items():
        for num_streams in (1, 16, 64):
            rounds.clear()
            await run(coordinator, params, num_streams, num_tokens if num_streams == 1 else num_tokens // 4)
            figures[f"{rule}, {num_streams} streams"] = summary(rounds)
            print(f"{rule}, {num_streams} streams: {summary(rounds)}", flush=True)
    await asyncio.gather(targets.close(), drafts.close())
    return figures


def summary(rounds: Rounds) -> dict[str, float]:
    """Median and 90th percentile of the overhead, bytes of a proposal per drafted token."""
    overheads = sorted(rounds.overheads_s)
    return {
        "rounds": len(overheads),
        "overhead_p50_ms": round(1e3 * statistics.median(overheads), 2),
        "overhead_p90_ms": round(1e3 * overheads[int(0.9 * len(overheads))], 2),
        "proposal_bytes_per_token": round(sum(rounds.proposal_bytes) / max(sum(rounds.drafted), 1), 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=int, default=256)
    arguments = parser.parse_args()
    with running() as trio:
        figures = uvloop.run(measure(trio, arguments.tokens))
    report.save("wire", figures)


if __name__ == "__main__":
    main()
