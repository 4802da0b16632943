"""A coordinator on scripted services, wired as the gateway wires it."""

import contextlib
from contextlib import asynccontextmanager

from prometheus_client import CollectorRegistry

from forerun.rpc.clients import DraftClient, TargetClient
from forerun.telemetry.metrics import GatewayMetrics
from forerun.types import SamplingParams, Verification
from gateway.coordinator import Coordinator, CoordinatorSettings
from gateway.generation import ChoiceRequest, SpeculationSettings
from gateway.pairing import OwnVocabulary, PairCheck
from gateway.replicas import Replicas
from tests.support.scripted_services import TOKENS, ScriptedDraft, ScriptedTarget, serving

GREEDY = SamplingParams(temperature=0.0, verification=Verification.MATCH)
PROMPT = tuple(range(1, 21))
OURS = OwnVocabulary(TOKENS, "fingerprint", (0,))


class Collector:
    """A sink that keeps everything; `stop_at` ends the text at that many tokens, on_push is called after each."""

    def __init__(self, stop_at=10**9, on_push=None):
        self.tokens, self.logprobs, self.prompt_logprobs, self.num_flushes = [], [], None, 0
        self.stop_at, self.on_push = stop_at, on_push

    def push(self, token, logprobs):
        self.tokens.append(token)
        self.logprobs.append(logprobs)
        if self.on_push:
            self.on_push(self)
        return "stop" if len(self.tokens) >= self.stop_at else None

    def push_prompt_logprobs(self, logprobs):
        assert self.prompt_logprobs is None and not self.tokens
        self.prompt_logprobs = logprobs

    def flush(self):
        self.num_flushes += 1


class House:
    """The coordinator, its services and its metrics."""

    def __init__(self, coordinator, targets, drafts, registry):
        self.coordinator, self.targets, self.drafts, self.registry = coordinator, targets, drafts, registry

    def count(self, name, **labels):
        return self.registry.get_sample_value(name, labels) or 0.0


def request(max_tokens=40, k=3, prompt=PROMPT, params=GREEDY, **changes):
    speculation = SpeculationSettings(enabled=k != 0, num_draft_tokens=k)
    return ChoiceRequest(prompt, params, seed=7, max_tokens=max_tokens, speculation=speculation, **changes)


@asynccontextmanager
async def house(targets, drafts=(), **settings):
    """Serves the scripted services (or takes their addresses) and gives a House."""
    async with contextlib.AsyncExitStack() as stack:
        places = [
            each if isinstance(each, str) else await stack.enter_async_context(serving(each))
            for each in (*targets, *drafts)
        ]
        target_set = Replicas([TargetClient(place) for place in places[: len(targets)]], PairCheck(OURS, "target"))
        draft_set = Replicas([DraftClient(place) for place in places[len(targets) :]], PairCheck(OURS, "draft"))
        for each in (target_set, draft_set):
            stack.push_async_callback(each.close)
        for each in (target_set, draft_set):
            await each.start()
        registry = CollectorRegistry()
        used, chosen = draft_set if drafts else None, CoordinatorSettings(**settings)
        coordinator = Coordinator(target_set, used, GatewayMetrics(registry), settings=chosen)
        yield House(coordinator, target_set, draft_set, registry)


__all__ = ["GREEDY", "OURS", "PROMPT", "Collector", "House", "ScriptedDraft", "ScriptedTarget", "house", "request"]
