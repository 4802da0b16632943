"""Gateways side by side, drafts that serve many targets and targets that many drafts serve."""

import asyncio
from contextlib import AsyncExitStack

from tests.support.coordinating import Collector, house, request
from tests.support.scripted_services import ScriptedDraft, ScriptedTarget, continuation, serving

NUM = 40
PROMPTS = [tuple(range(i, i + 20)) for i in range(1, 25)]


async def answered(pair, prompt):
    sink = Collector()
    await pair.coordinator.run(request(NUM, 3, prompt), sink)
    assert sink.tokens == continuation(prompt, NUM)


def places(services):
    """The service that each prompt was opened at, once by every gateway."""
    found = {}
    for place, service in enumerate(services):
        for opened in service.seen.opens:
            found.setdefault(tuple(opened.prompt[: len(PROMPTS[0])]), []).append(place)
    return found


async def test_gateways_agree_on_replicas_without_a_word_and_every_text_is_right():
    targets, drafts = [ScriptedTarget() for _ in range(3)], [ScriptedDraft(), ScriptedDraft()]
    async with AsyncExitStack() as stack:
        addresses = [await stack.enter_async_context(serving(service)) for service in (*targets, *drafts)]
        gateways = [await stack.enter_async_context(house(addresses[:3], addresses[3:])) for _ in range(2)]
        for prompt in PROMPTS:
            await asyncio.gather(*(answered(gateway, prompt) for gateway in gateways))
    for services in (targets, drafts):
        found = places(services)
        assert set(found) == set(PROMPTS)
        assert all(len(set(chosen)) == 1 for chosen in found.values())  # whose prefix cache knows it by now
    chosen = {(places(targets)[prompt][0], places(drafts)[prompt][0]) for prompt in PROMPTS}
    assert len(chosen) > 3  # of six pairs; ports are drawn by chance, and so few are with probability 1e-6


async def test_a_gateway_that_is_new_serves_on_from_where_another_left_nothing():
    """Nothing of a request is kept in a gateway: the next one answers alike, from caches that it never filled."""
    target, draft = ScriptedTarget(), ScriptedDraft()
    async with serving(target) as target_address, serving(draft) as draft_address:
        for _ in range(2):
            async with house([target_address], [draft_address]) as pair:
                await answered(pair, PROMPTS[0])
        await target.seen.until(lambda seen: seen.num_alive == 0)
    assert target.seen.num_finished == 2
