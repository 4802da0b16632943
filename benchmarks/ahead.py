"""Drafting ahead of the verdict against the synchronous loop: the bundled pair, each model on a core of its own.

    python -m benchmarks.ahead [--rounds 5] [--tokens 128] [--k 4]

Real services, one thread each, draft on the first core and target on the second; the coordinator, and a relay that
delays the draft's link, run in this process beside the draft. Every prompt is answered with and without drafting ahead
in turn; speed is that of all tokens after the first. A hit is a proposal that needed no asking.
"""

import argparse
import asyncio
import contextlib
import os
import statistics
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import uvloop
from prometheus_client import CollectorRegistry

from benchmarks import report
from benchmarks.prompts import PROMPTS
from benchmarks.relay import relay
from benchmarks.service import free_port, service
from forerun.models.resolve import resolve
from forerun.models.tokenizer_files import read_model_text
from forerun.rpc.clients import DraftClient, TargetClient
from forerun.telemetry.metrics import GatewayMetrics
from forerun.types import SamplingParams, Verification
from gateway.ahead import AheadMode
from gateway.coordinator import Coordinator, CoordinatorSettings
from gateway.generation import ChoiceRequest, SpeculationSettings
from gateway.pairing import OwnVocabulary, PairCheck
from gateway.replicas import Replicas, wait_for_one
from gateway.text import Text

DELAYS_S = (0.0, 0.002, 0.005)  # one way
RULES = {
    "greedy": SamplingParams(temperature=0, verification=Verification.MATCH),
    "coupled": SamplingParams(temperature=1, verification=Verification.MATCH),
    "rejection": SamplingParams(temperature=1, verification=Verification.REJECTION),
}
MODES: tuple[AheadMode, ...] = ("off", "on")


@dataclass
class Timed:
    """A sink that notes when tokens came."""

    times: list[float] = field(default_factory=list)
    ids: list[int] = field(default_factory=list)

    def push(self, token: int, logprobs: object) -> None:
        self.ids.append(token)
        self.times.append(time.perf_counter())

    def push_prompt_logprobs(self, logprobs: object) -> None: ...

    def flush(self) -> None: ...

    @property
    def tokens_per_s(self) -> float:
        """Of all after the first."""
        return (len(self.times) - 1) / (self.times[-1] - self.times[0])


class Loop:
    """One way to conduct the pair, and what it counted."""

    def __init__(self, targets: Replicas[TargetClient], drafts: Replicas[DraftClient], mode: AheadMode) -> None:
        self._registry = CollectorRegistry()
        settings = CoordinatorSettings(ahead=mode, own_drafter="off")
        self._coordinator = Coordinator(targets, drafts, GatewayMetrics(self._registry), settings=settings)
        self.speeds: list[float] = []

    async def run(self, prompt: tuple[int, ...], params: SamplingParams, seed: int, k: int | None, num: int) -> Timed:
        """Generates num tokens; k None leaves K to the gateway."""
        sink = Timed()
        speculation = SpeculationSettings(num_draft_tokens=k)
        request = ChoiceRequest(prompt, params, seed, max_tokens=num, speculation=speculation)
        await self._coordinator.run(request, sink)
        self.speeds.append(sink.tokens_per_s)
        return sink

    def count(self, name: str) -> float:
        """A counter of the gateway's."""
        return self._registry.get_sample_value(name) or 0.0

    def figures(self) -> dict[str, float]:
        """How its rounds went."""
        drafts = max(self.count("forerun_spec_decode_num_drafts_total"), 1)
        waits = self.count("forerun_draft_wait_seconds_sum") / drafts
        rounds = self.count("forerun_round_duration_seconds_sum") / drafts
        return {
            "tokens_per_s": round(statistics.median(self.speeds), 1),
            "accepted_per_round": round(self.count("forerun_spec_decode_num_accepted_tokens_total") / drafts, 2),
            "hit_rate": round(self.count("forerun_ahead_hits_total") / drafts, 3),
            "draft_wait_ms": round(1e3 * waits, 2),
            "round_ms": round(1e3 * rounds, 2),
        }


async def cell(
    targets: Replicas[TargetClient], drafts: Replicas[DraftClient], prompts: Sequence[tuple[int, ...]],
    params: SamplingParams, arguments: argparse.Namespace,
) -> dict[str, Any]:  # fmt: skip
    """Both loops on the same prompts in turn."""
    loops = {mode: Loop(targets, drafts, mode) for mode in MODES}
    num_changed = 0
    for turn in range(arguments.rounds):
        prompt = prompts[turn % len(prompts)]
        answers = [await loops[m].run(prompt, params, turn, arguments.k, arguments.tokens) for m in MODES]
        num_changed += params.verification is Verification.MATCH and answers[0].ids != answers[1].ids
    return {
        "ahead_over_synchronous": report.paired_ratio(loops["on"].speeds, loops["off"].speeds),
        "synchronous": loops["off"].figures(),
        "ahead": loops["on"].figures(),
        "texts_changed": num_changed,
    }


def vocabulary(model: str) -> OwnVocabulary:
    """What a gateway holds its peers against."""
    text = read_model_text(resolve(model))
    return OwnVocabulary(text.tokens, text.fingerprint, text.eos_token_ids)


def prompts_of(model: str) -> list[tuple[int, ...]]:
    """The benchmark's prompts as chats of this model."""
    text = Text.of(read_model_text(resolve(model)))
    chats = [text.render_chat([{"role": "user", "content": prompt}]) for prompt in PROMPTS]
    return [tuple(text.encode(chat, add_special_tokens=False)) for chat in chats]


@contextlib.asynccontextmanager
async def replicas(target: str, draft: str, ours: OwnVocabulary) -> AsyncIterator[Any]:
    """Both services, as the gateway sees them."""
    targets = Replicas([TargetClient(target)], PairCheck(ours, "target"))
    drafts = Replicas([DraftClient(draft)], PairCheck(ours, "draft"))
    try:
        await asyncio.gather(targets.start(), drafts.start())
        await asyncio.gather(wait_for_one(targets, "target"), wait_for_one(drafts, "draft"))
        yield targets, drafts
    finally:
        await asyncio.gather(targets.close(), drafts.close())


async def measure(target: str, draft: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """Every rule over every delay."""
    ours, prompts = vocabulary("bundled"), prompts_of("bundled")
    figures: dict[str, Any] = {"k": arguments.k or "auto"}
    for delay_s in arguments.delays:
        async with relay(draft, delay_s) as far, replicas(target, far, ours) as (targets, drafts):
            for rule in arguments.rules:
                found = await cell(targets, drafts, prompts, RULES[rule], arguments)
                figures[f"{rule}, {1e3 * delay_s:g} ms"] = found
                print(f"{rule}, {1e3 * delay_s:g} ms: {found}", flush=True)
    return figures


@contextlib.contextmanager
def pinned(core: int) -> Iterator[None]:
    """What is started in this block runs on one core alone."""
    all_cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {sorted(all_cores)[core]})
    try:
        yield
    finally:
        os.sched_setaffinity(0, all_cores)


@contextlib.contextmanager
def started(module: str, core: int) -> Iterator[str]:
    """The address of a service on that core."""
    address = f"127.0.0.1:{free_port()}"
    port = address.rpartition(":")[2]
    with contextlib.ExitStack() as stack:
        with pinned(core):
            flags = ("--port", port, "--metrics-port", "0", "--threads", "1")
            stack.enter_context(service(module, *flags, address=address))
        yield address


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="prompts of each cell")
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--k", type=int, default=None, help="fixed K; the gateway chooses where it is not given")
    parser.add_argument("--rules", nargs="+", choices=RULES, default=list(RULES))
    parser.add_argument("--delays", nargs="+", type=float, default=DELAYS_S, help="seconds, one way")
    parser.add_argument("--save", default="ahead", help="name of the results; empty saves none")
    arguments = parser.parse_args()
    with started("draft_service", 0) as draft, started("target_service", 1) as target, pinned(0):
        figures = uvloop.run(measure(target, draft, arguments))
    if arguments.save:
        report.save(arguments.save, figures)


if __name__ == "__main__":
    main()
