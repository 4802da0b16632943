"""The gateway's own loop in a benchmark's process, over a draft and a target on a core of their own each."""

import asyncio
import contextlib
import os
import statistics
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from typing import Any

from prometheus_client import CollectorRegistry

from benchmarks.service import free_port, service
from forerun.bench.prompts import PROMPTS
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

RULES = {
    "greedy": SamplingParams(temperature=0, verification=Verification.MATCH),
    "coupled": SamplingParams(temperature=1, verification=Verification.MATCH),
    "rejection": SamplingParams(temperature=1, verification=Verification.REJECTION),
}


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

    def count_at(self, name: str, position: int) -> float:
        """The same, of a position in the proposal."""
        return self._registry.get_sample_value(name, {"position": str(position)}) or 0.0

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


def chat_prompts(model: str) -> list[tuple[int, ...]]:
    """forerun.bench.prompts as the model's chats."""
    text = Text.of(read_model_text(resolve(model)))
    chats = [text.render_chat([{"role": "user", "content": prompt}]) for prompt in PROMPTS]
    return [tuple(text.encode(chat, add_special_tokens=False)) for chat in chats]


@contextlib.asynccontextmanager
async def replicas(target: str, draft: str, model: str) -> AsyncIterator[Any]:
    """Both services, as the gateway sees them."""
    known = read_model_text(resolve(model))
    ours = OwnVocabulary(known.tokens, known.fingerprint, known.eos_token_ids)
    targets = Replicas([TargetClient(target)], PairCheck(ours, "target"))
    drafts = Replicas([DraftClient(draft)], PairCheck(ours, "draft"))
    try:
        await asyncio.gather(targets.start(), drafts.start())
        await asyncio.gather(wait_for_one(targets, "target"), wait_for_one(drafts, "draft"))
        yield targets, drafts
    finally:
        await asyncio.gather(targets.close(), drafts.close())


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
