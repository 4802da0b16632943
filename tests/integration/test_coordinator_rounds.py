"""The loop over real sockets with services that behave."""

import pytest

from tests.support.coordinating import PROMPT, Collector, house, request
from tests.support.scripted_services import ScriptedDraft, ScriptedTarget, continuation, info, wrong_tokens

NUM = 40
TEXT = continuation(PROMPT, NUM)


@pytest.mark.parametrize("k", [0, 1, 3, 8, None])
async def test_the_text_is_the_targets_own_for_every_k(k):
    target, draft, sink = ScriptedTarget(), ScriptedDraft(), Collector()
    async with house([target], [draft]) as pair:
        await pair.coordinator.run(request(k=k), sink)
        await target.seen.until(lambda seen: seen.num_finished == 1)
    assert sink.tokens == TEXT
    assert target.seen.num_aborted == draft.seen.num_aborted == 0


async def test_a_good_draft_is_accepted_and_counted():
    draft, sink = ScriptedDraft(), Collector()
    async with house([ScriptedTarget(gate=draft.answered)], [draft]) as pair:
        stats = await pair.coordinator.run(request(k=4), sink)
        assert sink.tokens == TEXT
        assert stats.num_drafts >= 5
        assert stats.num_accepted_tokens == stats.num_draft_tokens
        assert pair.count("forerun_spec_decode_num_drafts_total") == stats.num_drafts
        assert pair.count("forerun_spec_decode_num_accepted_tokens_total") == stats.num_accepted_tokens
        assert pair.count("forerun_spec_decode_num_accepted_tokens_per_pos_total", position="3") > 0


async def test_a_wrong_draft_changes_nothing_case_9():
    draft, sink = ScriptedDraft(wrong_tokens), Collector()
    async with house([ScriptedTarget(gate=draft.answered)], [draft]) as pair:
        stats = await pair.coordinator.run(request(k=3), sink)
    assert sink.tokens == TEXT
    assert stats.num_drafts > 0 and stats.num_accepted_tokens == 0


async def test_nothing_is_proposed_past_max_tokens_case_15():
    draft = ScriptedDraft()
    async with house([ScriptedTarget()], [draft]) as pair:
        await pair.coordinator.run(request(k=8, max_tokens=11), Collector())
    assert all(ask.base_len + len(ask.ids) + ask.k < len(PROMPT) + 11 for ask in draft.seen.messages)


async def test_tokens_after_the_last_one_of_the_text_are_dropped_cases_11_and_12():
    target, sink = ScriptedTarget(), Collector(stop_at=9)
    async with house([target], [ScriptedDraft()]) as pair:
        await pair.coordinator.run(request(k=5), sink)
        await target.seen.until(lambda seen: seen.num_finished == 1)
    assert sink.tokens == TEXT[:9]


async def test_without_a_draft_the_target_never_waits_for_a_renewal_of_its_grant():
    target, sink = ScriptedTarget(), Collector()
    async with house([target]) as pair:
        await pair.coordinator.run(request(k=0, max_tokens=100), sink)
    assert sink.tokens == continuation(PROMPT, 100)
    verifies = target.seen.messages
    assert len(verifies) < 16
    assert all(ask.base_len + len(ask.ids) + ask.grant + 1 <= len(PROMPT) + 100 for ask in verifies)
    assert target.seen.num_produced == 100


async def test_past_the_drafts_context_the_target_goes_on_alone_case_16():
    draft, sink = ScriptedDraft(info_=info("draft", max_model_len=45)), Collector()
    async with house([ScriptedTarget(gate=draft.answered)], [draft]) as pair:
        stats = await pair.coordinator.run(request(k=4), sink)
    assert sink.tokens == TEXT and stats.num_drafts > 0
    assert all(ask.base_len + len(ask.ids) + ask.k <= 45 for ask in draft.seen.messages)


async def test_a_draft_whose_model_ends_elsewhere_drafts_across_its_own_ends():
    ends = tuple(sorted(set(TEXT[4:20])))
    draft, sink = ScriptedDraft(info_=info("draft", eos_token_ids=ends)), Collector()
    async with house([ScriptedTarget(gate=draft.answered)], [draft]) as pair:
        stats = await pair.coordinator.run(request(k=4), sink)
    assert sink.tokens == TEXT
    assert stats.num_accepted_tokens == stats.num_draft_tokens > 0


async def test_the_draft_is_never_given_the_seed():
    draft = ScriptedDraft()
    async with house([ScriptedTarget()], [draft]) as pair:
        await pair.coordinator.run(request(k=2), Collector())
    assert b"seed" not in draft.seen.opens[0].DESCRIPTOR.full_name.encode()
    assert not any(field.name == "seed" for field in draft.seen.opens[0].DESCRIPTOR.fields)


async def test_prompt_logprobs_come_first_and_alone_with_max_tokens_0():
    alone, both = Collector(), Collector()
    async with house([ScriptedTarget()], [ScriptedDraft()]) as pair:
        await pair.coordinator.run(request(max_tokens=0, num_prompt_logprobs=0), alone)
        await pair.coordinator.run(request(max_tokens=4, num_prompt_logprobs=0), both)
    assert len(alone.prompt_logprobs) == len(both.prompt_logprobs) == len(PROMPT) - 1
    assert alone.tokens == [] and both.tokens == TEXT[:4]


async def test_a_service_that_forgot_tokens_is_sent_the_tail():
    target, draft, sink = ScriptedTarget(forget_after=4), ScriptedDraft(forget_after=3), Collector()
    async with house([target], [draft]) as pair:
        await pair.coordinator.run(request(k=3), sink)
    assert sink.tokens == TEXT
    assert any(ask.base_len == 2 and ask.ids for ask in target.seen.messages)
    assert any(ask.base_len == 2 and ask.ids for ask in draft.seen.messages)


async def test_waiting_is_no_death():
    sink = Collector()
    async with house([ScriptedTarget(wait_first=3)]) as pair:
        await pair.coordinator.run(request(k=0), sink)
    assert sink.tokens == TEXT


async def test_no_committed_token_travels_twice():
    target, draft = ScriptedTarget(), ScriptedDraft()
    async with house([target], [draft]) as pair:
        await pair.coordinator.run(request(k=3), Collector())
    assert all(not ask.ids for ask in target.seen.messages)
    places = [ask.base_len + i for ask in draft.seen.messages for i in range(len(ask.ids))]
    assert len(places) == len(set(places))
