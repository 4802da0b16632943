"""The loop with drafts that push proposals ahead of the verdict: honest ones, and ones that nothing may be built on."""

import asyncio
import itertools

import pytest

from forerun.rpc.messages import Ahead, DraftReply
from gateway.ahead import Ahead as SequenceAhead
from gateway.questions import NOT_AHEAD, AheadTerms
from tests.support import scripted_services as scripted
from tests.support.coordinating import PROMPT, Collector, house, request
from tests.support.scripted_services import ScriptedDraft, ScriptedTarget, continuation, foresees, outcome, pushing

NUM, K = 60, 3
TEXT = continuation(PROMPT, NUM)


async def run(draft, k=K, ahead="on", **target):
    """The stats, the counts and the text of one request."""
    sink = Collector()
    async with house([ScriptedTarget(gate=draft.answered, **target)], [draft], ahead=ahead) as pair:
        async with asyncio.timeout(10):
            stats = await pair.coordinator.run(request(NUM, k), sink)
        names = {"hits": "forerun_ahead_hits_total", "pushed": "forerun_ahead_proposals_total"}
        counts = {key: pair.count(name) for key, name in names.items()}
        counts["nonsense"] = pair.count("forerun_draft_fallbacks_total", reason="nonsense")
    assert sink.tokens == TEXT
    return stats, counts


@pytest.mark.parametrize("behave", [scripted.good, scripted.wrong_tokens])
async def test_what_a_draft_foresaw_is_verified_without_asking(behave):
    draft = ScriptedDraft(behave, push=foresees)
    stats, counts = await run(draft)
    assert counts["hits"] > 5
    assert any(ask.known for ask in draft.seen.messages)
    assert stats.num_accepted_tokens >= K * (counts["hits"] - 1), "what was pushed is what is accepted"
    assert counts["nonsense"] == 0


async def test_no_committed_token_travels_twice():
    draft = ScriptedDraft(push=foresees)
    await run(draft)
    places = [ask.base_len + i for ask in draft.seen.messages for i in range(len(ask.ids))]
    assert len(places) == len(set(places))


async def test_a_draft_is_told_all_that_was_committed_where_ahead_is_switched_off_over_a_proposal_that_lies_ready(
    monkeypatch,
):
    turns = itertools.cycle([AheadTerms(8, K), NOT_AHEAD])
    monkeypatch.setattr(SequenceAhead, "terms", lambda self, k: next(turns))
    draft = ScriptedDraft(scripted.wrong_tokens, push=foresees)
    _, counts = await run(draft)
    assert counts["hits"] > 5
    told = len(PROMPT)
    for ask in draft.seen.messages:
        assert ask.base_len <= told, "none of its own tokens was accepted: it holds what it was told"
        told = ask.base_len + len(ask.ids)


async def test_nobody_is_asked_to_run_ahead_where_that_is_off():
    draft = ScriptedDraft(push=foresees)
    _, counts = await run(draft, ahead="off")
    assert counts["hits"] == counts["pushed"] == 0
    assert not any(ask.num_branches or ask.ahead_k or ask.known for ask in draft.seen.messages)


async def test_an_older_draft_that_knows_nothing_of_it_is_asked_every_time():
    stats, counts = await run(ScriptedDraft())
    assert stats.num_accepted_tokens == stats.num_draft_tokens > 0
    assert counts["hits"] == 0


async def test_a_push_that_crosses_the_question_answers_it_and_the_answer_that_follows_is_understood():
    """A slow link: the draft hears of the question when its push is out already."""
    draft = ScriptedDraft()

    def behave(ids, propose):
        if len(ids) == len(PROMPT) + 1 or not propose.num_branches:
            return scripted.good(ids, propose)
        return pushing((ids, len(ids), continuation(ids, propose.k), {}))

    draft.behave = behave
    draft.push = lambda ids, tokens, propose: [scripted.good(ids, propose)] if len(ids) > len(PROMPT) + 5 else []
    stats, counts = await run(draft)
    assert counts["hits"] > 5 and counts["nonsense"] == 0
    assert stats.num_accepted_tokens == stats.num_draft_tokens


def wrong_tokens(ids, tokens, propose):
    after = outcome(ids, tokens)
    return [pushing((after, len(after), [(t + 1) % scripted.VOCAB for t in continuation(after, propose.ahead_k)], {}))]


def unknown_ids(ids, tokens, propose):
    after = outcome(ids, tokens)
    return [pushing((after, len(after), [2**31 + i for i in range(propose.ahead_k)], {}))]


def wrong_hash(ids, tokens, propose):
    after = outcome(ids, tokens)
    return [pushing((after[:-1], len(after), continuation(after, propose.ahead_k), {}))]


def wrong_base(ids, tokens, propose):
    after = outcome(ids, tokens)
    return [pushing((after, len(after) + 1, continuation(after, propose.ahead_k), {}))]


def more_than_asked_a_branch(ids, tokens, propose):
    after = outcome(ids, tokens)
    return [pushing((after, len(after), continuation(after, 30), {}))]


def nothing_in_it(ids, tokens, propose):
    after = outcome(ids, tokens)
    return [pushing((after, len(after), [], {}))]


def twice(ids, tokens, propose):
    return foresees(ids, tokens, propose) * 2


HARMLESS = (wrong_tokens, unknown_ids, wrong_hash, wrong_base, more_than_asked_a_branch, nothing_in_it, twice)


@pytest.mark.parametrize("push", HARMLESS, ids=lambda push: push.__name__)
@pytest.mark.parametrize("k", [K, None])
async def test_no_push_however_bad_changes_the_text_case_31(push, k):
    stats, counts = await run(ScriptedDraft(push=push), k)
    assert counts["nonsense"] == 0
    if push is wrong_tokens and k:
        assert counts["hits"] > 0 and stats.num_accepted_tokens < stats.num_draft_tokens


def too_many(ids, tokens, propose):
    after = outcome(ids, tokens)
    return [pushing(*[([i], len(after), continuation(after, propose.ahead_k), {}) for i in range(5000)])]


def flood(ids, tokens, propose):
    return foresees(ids, tokens, propose) * 100


def malformed_laws(ids, tokens, propose):
    after = outcome(ids, tokens)
    return [pushing((after, len(after), [1], {"support_lens": [7], "support_ids": [1], "weights": [0]}))]


def over_every_limit(ids, tokens, propose):
    after = outcome(ids, tokens)
    return [pushing((after, len(after), continuation(after, 33), {}))]


def empty(ids, tokens, propose):
    return [DraftReply(ahead=Ahead())] * 100


NONSENSE = (too_many, flood, malformed_laws, over_every_limit, empty)


@pytest.mark.parametrize("push", NONSENSE, ids=lambda push: push.__name__)
async def test_a_push_that_is_none_or_that_nobody_asked_for_closes_its_stream_alone(push):
    draft = ScriptedDraft(push=push)
    _, counts = await run(draft)
    assert counts["nonsense"] >= 1


async def test_a_push_without_being_asked_is_nonsense():
    draft = ScriptedDraft(lambda ids, propose: foresees(ids, [], propose)[0])
    _, counts = await run(draft, ahead="off")
    assert counts["nonsense"] >= 1


async def test_a_draft_that_pushes_and_then_falls_silent_costs_one_deadline():
    """Its push for the next transcript is verified; the one after that is asked for and never comes."""
    draft = ScriptedDraft()

    def behave(ids, propose):
        draft.push = None
        return scripted.good(ids, propose) if len(ids) < len(PROMPT) + 12 else None

    draft.behave, draft.push = behave, foresees
    await run(draft)


async def test_a_draft_that_dies_after_a_push_is_done_without():
    draft = ScriptedDraft(push=foresees)
    draft.behave = lambda ids, propose: scripted.good(ids, propose) if len(ids) < 30 else scripted.dies(ids, propose)
    await run(draft)


async def test_a_target_that_fails_over_between_a_hit_and_its_verdict_gets_the_proposal_again():
    draft, sink = ScriptedDraft(push=foresees), Collector()
    dying = [ScriptedTarget(die_after=9, gate=draft.answered) for _ in range(2)]
    async with house([*dying, ScriptedTarget(gate=draft.answered)], [draft], ahead="on") as pair:
        await pair.coordinator.run(request(NUM, K), sink)
        assert pair.count("forerun_ahead_hits_total") > 5
    assert sink.tokens == TEXT
