"""What a hostile draft may cost: its stream one deadline, its neighbours nothing, and under match never a token."""

import asyncio
from dataclasses import replace

import pytest

from forerun.rpc.clients import MAX_DRAFT_BYTES
from forerun.types import SamplingParams, Verification
from forerun.v1 import common_pb2, draft_pb2
from gateway import draft_link, speculation
from gateway.pair import PairRecord
from tests.support import scripted_services as scripted
from tests.support.coordinating import PROMPT, Collector, house, request
from tests.support.scripted_services import ScriptedDraft, ScriptedTarget, continuation

NUM = 400
TEXT = continuation(PROMPT, NUM)
WAITING = draft_pb2.DraftReply(waiting=common_pb2.Waiting(reason="soon"))


class Dripping(ScriptedDraft):
    """Answers the first question of a stream, then says every so often that it is at work, and nothing else."""

    def __init__(self, every_s):
        super().__init__()
        self.every_s, self.num_drips, self.first_is_good = every_s, 0, True
        self.behave = scripted.silent

    async def Draft(self, requests, context):
        dripping = asyncio.create_task(self._drip(context))
        try:
            await super().Draft(requests, context)
        finally:
            dripping.cancel()

    async def _drip(self, context):
        await self.answered.wait()
        while True:
            await asyncio.sleep(self.every_s)
            await context.write(WAITING)
            self.num_drips += 1


class Paced:
    """Some time a step, so that a draft has time to misbehave."""

    async def wait(self):
        await asyncio.sleep(0.001)


def giant(ids, propose):
    """More than a draft may ever send at once."""
    return scripted.proposal(len(ids), [1] * MAX_DRAFT_BYTES)


def large(ids, propose):
    """As large as it may be."""
    return scripted.proposal(len(ids), [1] * (MAX_DRAFT_BYTES // 2))


def endless_laws(ids, propose):
    tokens = continuation(ids, propose.k)
    return scripted.proposal(len(ids), tokens, support_lens=[0] * (MAX_DRAFT_BYTES // 2))


def large_laws(ids, propose):
    tokens, num = continuation(ids, propose.k), MAX_DRAFT_BYTES // 4
    return scripted.proposal(len(ids), tokens, support_lens=[num], support_ids=[1] * num, weights=[1] * num)


def absurd_times(draft_s):
    def behave(ids, propose):
        reply = scripted.good(ids, propose)
        reply.proposal.draft_s = draft_s
        return reply

    return behave


@pytest.mark.parametrize("k", [3, None])
@pytest.mark.parametrize("behave", [giant, large, endless_laws, large_laws])
async def test_a_message_however_large_is_refused_for_its_size_and_changes_nothing(behave, k, caplog):
    draft, target, sink = ScriptedDraft(behave), ScriptedTarget(), Collector()
    target.gate = draft.answered
    async with house([target], [draft]) as pair:
        async with asyncio.timeout(10):
            await pair.coordinator.run(request(NUM, k), sink)
        await target.seen.until(lambda seen: seen.num_alive == 0)
    assert sink.tokens == TEXT
    assert len(caplog.text) < 20_000, "it would fill our logs"


@pytest.mark.parametrize("draft_s", [float("nan"), float("inf"), -1.0, 1e308])
@pytest.mark.parametrize("k", [3, None])
async def test_times_that_cannot_be_are_not_believed(draft_s, k):
    draft, sink = ScriptedDraft(absurd_times(draft_s)), Collector()
    async with house([ScriptedTarget(gate=draft.answered)], [draft]) as pair:
        async with asyncio.timeout(10):
            await pair.coordinator.run(request(NUM, k), sink)
        costs = next(iter(pair.coordinator._pairs.values())).costs
        assert 0 <= costs.proposal_s(3) < 10
    assert sink.tokens == TEXT


async def test_a_draft_that_drips_costs_its_stream_one_deadline_and_is_not_waited_for_again():
    draft, sink = Dripping(0.005), Collector()
    async with house([ScriptedTarget(gate=Paced())], [draft]) as pair:
        async with asyncio.timeout(20):
            await pair.coordinator.run(request(NUM, 3), sink)
        assert 1 <= pair.count("forerun_draft_fallbacks_total", reason="late") <= len(draft.seen.opens)
    assert sink.tokens == TEXT and draft.num_drips > 10


async def test_a_draft_that_floods_us_is_cut_off():
    draft, sink = Dripping(0.0), Collector()
    async with house([ScriptedTarget(gate=draft.answered)], [draft]) as pair:
        run = asyncio.create_task(pair.coordinator.run(request(10**6, 3), sink))
        async with asyncio.timeout(10):
            while not pair.count("forerun_draft_fallbacks_total", reason="gone"):
                await asyncio.sleep(0.01)
        assert draft.num_drips < 10_000
        run.cancel()
        await asyncio.gather(run, return_exceptions=True)
    assert sink.tokens[:NUM] == TEXT[: len(sink.tokens)]


class Hanging(ScriptedDraft):
    """Says nothing on its streams, nor when it is looked at."""

    async def Info(self, request, context):
        if self.seen.opens:
            await asyncio.Event().wait()
        return await super().Info(request, context)


async def test_a_draft_that_hangs_is_out_for_all_requests_once_one_has_noticed(monkeypatch):
    monkeypatch.setattr(draft_link, "SILENCE_S", 0.1)
    draft = Hanging(scripted.silent)
    draft.first_is_good = False
    async with house([ScriptedTarget(gate=Paced())], [draft]) as pair:
        await pair.coordinator.run(request(NUM, 3), Collector())
        assert pair.count("forerun_draft_fallbacks_total", reason="silent") == 1
        for _ in range(5):
            await pair.coordinator.run(request(20, 3), Collector())
        assert len(draft.seen.opens) == 1


def test_a_deadline_stays_bounded_however_slow_a_draft_has_been():
    pair = PairRecord()
    for _ in range(20):
        pair.costs.saw_proposal(1, 9.0, 9.0)
    chooser = speculation.Speculation(pair, "", 3)
    assert chooser.deadline_s(3, 500) == speculation.MAX_DEADLINE_S


SAMPLED = SamplingParams(temperature=1.0, verification=Verification.REJECTION)


@pytest.mark.parametrize("rule", [Verification.REJECTION, Verification.BLOCK])
async def test_a_draft_that_is_not_trusted_is_never_asked_where_its_law_would_be_believed(rule):
    asked = {}
    for trusts in (True, False):
        draft = ScriptedDraft()
        async with house([ScriptedTarget()], [draft], trusts_drafts=trusts) as pair:
            await pair.coordinator.run(request(40, 3, params=replace(SAMPLED, verification=rule)), Collector())
            await pair.coordinator.run(request(40, 3), Collector())
            asked[trusts] = [opened.sampling.verification for opened in draft.seen.opens]
    assert asked[False] == [common_pb2.VERIFICATION_MATCH]
    assert len(asked[True]) == 2
