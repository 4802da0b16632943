"""The gateway's own drafters over the real target: seen in the counts, never in the text.

Whether they pay depends on this machine's speed; here every offer is taken (tests/simulation is for the choice).
"""

from contextlib import asynccontextmanager

import pytest
from prometheus_client import CollectorRegistry

from forerun.telemetry.metrics import GatewayMetrics
from forerun.types import SamplingParams, Verification
from gateway.coordinator import Coordinator, CoordinatorSettings
from gateway.replicas import Replicas
from tests.support.coordinating import Collector, request
from tests.support.wire import clients

PROMPT = (42, 29, 47, 17, 16, 7, 29) * 8
NUM_TOKENS = 160
GREEDY = SamplingParams(temperature=0.0, verification=Verification.MATCH)
SEEDED = SamplingParams(temperature=0.3, verification=Verification.MATCH)


@pytest.fixture(autouse=True)
def _every_offer_is_taken(monkeypatch):
    monkeypatch.setattr("gateway.own_drafting.MIN_GAIN", 0.0)


async def _fits(peer, info):
    """Both peers are of the tiny pair."""


@asynccontextmanager
async def coordinators(target_address, draft_address=None):
    """A coordinator with own drafters and one without, over the same services; and the metrics of the first."""
    async with clients(target_address, draft_address) as opened:
        targets, drafts = (Replicas([client] if client else [], _fits) for client in opened)
        for each in (targets, drafts):
            await each.start()
        registry = CollectorRegistry()
        used = drafts if draft_address else None
        with_own = Coordinator(targets, used, GatewayMetrics(registry))
        off = CoordinatorSettings(own_drafter="off")
        yield with_own, Coordinator(targets, used, GatewayMetrics(CollectorRegistry()), settings=off), registry
        for each in (targets, drafts):
            await each.close()


async def generated(coordinator, params, k=None):
    sink = Collector()
    stats = await coordinator.run(request(NUM_TOKENS, k, PROMPT, params), sink)
    return sink.tokens, stats


@pytest.mark.parametrize("has_draft", [True, False], ids=["with a service", "without"])
@pytest.mark.parametrize("params", [GREEDY, SEEDED], ids=["greedy", "seeded"])
async def test_the_text_is_the_targets_own(tiny_target, tiny_draft, params, has_draft):
    async with coordinators(tiny_target.address, tiny_draft.address if has_draft else None) as (own, off, registry):
        plain, _ = await generated(off, params, k=0)
        text, stats = await generated(own, params)
        assert text == plain
        drafted, accepted = _count(registry, "draft_tokens"), _count(registry, "accepted_tokens")
        assert 0 < drafted <= stats.num_draft_tokens
        # Beside a service the clock chooses who drafts: it may be theirs once only, and that one wrong.
        assert (0 if has_draft else 1) <= accepted <= drafted


async def test_without_a_service_all_that_is_counted_is_theirs(tiny_target):
    async with coordinators(tiny_target.address) as (own, off, registry):
        _, stats = await generated(own, GREEDY)
        assert stats.num_drafts > 0
        assert stats.num_draft_tokens == _count(registry, "draft_tokens")
        assert stats.num_accepted_tokens == _count(registry, "accepted_tokens")
        _, stats = await generated(off, GREEDY)
        assert stats.num_drafts == 0


@pytest.mark.parametrize("k", [0, 4])
async def test_a_k_that_the_request_fixes_leaves_them_out(tiny_target, k):
    async with coordinators(tiny_target.address) as (own, _, _registry):
        assert (await generated(own, GREEDY, k))[1].num_drafts == 0


def _count(registry, what):
    names = ("suffix", "ngram")
    return sum(registry.get_sample_value(f"forerun_drafter_{what}_total", {"drafter": name}) or 0 for name in names)
