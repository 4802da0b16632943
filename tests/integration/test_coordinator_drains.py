"""Targets and drafts that end on purpose: their sequences are elsewhere before they close."""

import asyncio

import pytest

from forerun.errors import ServiceUnavailable
from tests.support.coordinating import PROMPT, Collector, house, request
from tests.support.scripted_services import ScriptedDraft, ScriptedTarget, continuation

NUM = 60
TEXT = continuation(PROMPT, NUM)


def draining_at(num_tokens, services, told):
    """A sink in whose middle the one of `services` that serves it says that it drains."""

    def drain(sink):
        if len(sink.tokens) == num_tokens:
            busy = next(service for service in services if service.seen.num_alive)
            told.append((busy, asyncio.create_task(busy.drain())))

    return Collector(on_push=drain)


@pytest.mark.parametrize("k", [0, 3, None])
@pytest.mark.parametrize("num_tokens", [1, 2, 20, 59])
async def test_a_target_that_drains_is_left_with_every_committed_token(k, num_tokens):
    targets, told = [ScriptedTarget(), ScriptedTarget()], []
    sink = draining_at(num_tokens, targets, told)
    async with house(targets, [ScriptedDraft()]) as pair:
        await pair.coordinator.run(request(NUM, k), sink)
        [(left, _)] = told
        await left.seen.until(lambda seen: seen.num_alive == 0)
        assert pair.count("forerun_failovers_total") == 0
        if num_tokens < 50:
            [taken_over] = [target for target in targets if target is not left]
            assert pair.count("forerun_handovers_total") == 1
            assert list(taken_over.seen.opens[0].prompt) == [*PROMPT, *TEXT][: len(taken_over.seen.opens[0].prompt)]
            assert taken_over.seen.opens[0].num_prompt_tokens == len(PROMPT)
    assert sink.tokens == TEXT


async def test_new_sequences_go_elsewhere_at_once():
    targets, told, later = [ScriptedTarget(), ScriptedTarget()], [], Collector()
    async with house(targets) as pair:
        await pair.coordinator.run(request(NUM, 0), draining_at(20, targets, told))
        [(left, _)] = told
        await pair.coordinator.run(request(NUM, 0), later)
        assert len(left.seen.opens) == 1
    assert later.tokens == TEXT


async def test_a_target_that_drains_is_stayed_with_where_there_is_no_other():
    target, told = ScriptedTarget(), []
    sink = draining_at(5, [target], told)
    async with house([target]) as pair:
        await pair.coordinator.run(request(NUM, 0), sink)
        assert pair.count("forerun_handovers_total") == 0
        with pytest.raises(ServiceUnavailable):
            await pair.coordinator.run(request(NUM, 0), Collector())
    assert sink.tokens == TEXT


async def test_a_sequence_that_waits_for_a_target_that_drains_does_not_wait_there():
    """It is queued: no verdict will come soon, so the word that it waits is the moment to go."""
    full, other, sink = ScriptedTarget(gate=asyncio.Event()), ScriptedTarget(gate=asyncio.Event()), Collector()
    async with house([full, other]) as pair:
        running = asyncio.create_task(pair.coordinator.run(request(NUM, 0), sink))
        while not (busy := [target for target in (full, other) if target.seen.messages]):
            await asyncio.sleep(0.001)
        [left] = busy
        next(target for target in (full, other) if target is not left).gate.set()
        await left.drain()
        await asyncio.sleep(0.05)
        assert len(sink.tokens) == 0
        await left.say_waiting()
        await running
    assert sink.tokens == TEXT


@pytest.mark.parametrize("k", [3, None])
async def test_a_draft_that_drains_is_left_for_another(k):
    drafts, told, gate = [ScriptedDraft(), ScriptedDraft()], [], asyncio.Event()
    gate.set()

    def drain(sink):
        if len(sink.tokens) == 40:
            busy = next(draft for draft in drafts if draft.seen.num_alive)
            told.append((busy, asyncio.create_task(busy.drain())))

    sink = Collector(on_push=drain)
    async with house([ScriptedTarget(gate=gate)], drafts) as pair:
        await pair.coordinator.run(request(400, k), sink)
        [(left, _)] = told
        [taken_over] = [draft for draft in drafts if draft is not left]
        assert pair.count("forerun_draft_fallbacks_total", reason="gone") == 0
        await left.seen.until(lambda seen: seen.num_finished == 1)
    assert sink.tokens == continuation(PROMPT, 400)
    assert len(left.seen.opens) == 1 and len(taken_over.seen.opens) == 1
    assert len(taken_over.seen.opens[0].prompt) > len(PROMPT)
