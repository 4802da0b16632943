"""The loop over real sockets with services that die, hang, lie and come back."""

import asyncio

import grpc
import pytest

from forerun.errors import DeadlineExceeded, InvalidRequest, Overloaded, ServiceUnavailable
from forerun.v1 import common_pb2
from gateway import draft_link
from tests.support import scripted_services as scripted
from tests.support.coordinating import PROMPT, Collector, house, request
from tests.support.scripted_services import ScriptedDraft, ScriptedTarget, continuation, serving

NUM = 60
TEXT = continuation(PROMPT, NUM)


@pytest.mark.parametrize(
    "behave",
    [
        scripted.wrong_tokens,
        scripted.unknown_ids,
        scripted.too_many,
        scripted.wrong_base,
        scripted.malformed_laws,
        scripted.doubled_laws,
        scripted.empty_message,
        scripted.nothing_to_say,
        scripted.silent,
        scripted.fault,
        scripted.dies,
    ],
)
@pytest.mark.parametrize("k", [3, None])
@pytest.mark.parametrize("first_is_good", [True, False])
async def test_no_draft_however_bad_changes_the_text_case_9(behave, k, first_is_good):
    draft, target, sink = ScriptedDraft(behave), ScriptedTarget(), Collector()
    draft.first_is_good = first_is_good
    async with house([target], [draft]) as pair:
        async with asyncio.timeout(5):
            await pair.coordinator.run(request(NUM, k), sink)
        await target.seen.until(lambda seen: seen.num_finished == 1)
        await target.seen.until(lambda seen: seen.num_alive == 0)
    assert sink.tokens == TEXT


async def test_ids_outside_the_vocabulary_reach_the_target_to_be_rejected():
    draft, target = ScriptedDraft(scripted.unknown_ids), ScriptedTarget()
    async with house([target], [draft]) as pair:
        stats = await pair.coordinator.run(request(NUM, 3), Collector())
    proposed = [ask.proposal.tokens for ask in target.seen.messages if ask.HasField("proposal")]
    assert any(token >= 2**31 for tokens in proposed for token in tokens)
    assert stats.num_draft_tokens > stats.num_accepted_tokens


@pytest.mark.parametrize("num_targets", [1, 2])
async def test_a_target_that_refuses_a_proposal_as_invalid_costs_the_draft_its_stream_not_the_client_its_text(
    num_targets,
):
    """Whatever a draft can say that the gateway lets pass and a target does not."""
    fault = common_pb2.Fault(code=grpc.StatusCode.INVALID_ARGUMENT.value[0], message="no such proposal")
    targets, sink = [ScriptedTarget(proposal_fault=fault) for _ in range(num_targets)], Collector()
    async with house(targets, [ScriptedDraft()]) as pair:
        async with asyncio.timeout(10):
            stats = await pair.coordinator.run(request(NUM, 3), sink)
    assert sink.tokens == TEXT
    assert stats.num_accepted_tokens == 0


async def test_nonsense_is_counted_and_its_stream_closed():
    draft = ScriptedDraft(scripted.wrong_base)
    async with house([ScriptedTarget()], [draft]) as pair:
        await pair.coordinator.run(request(NUM, 3), Collector())
        assert pair.count("forerun_draft_fallbacks_total", reason="nonsense") >= 1
        await draft.seen.until(lambda seen: seen.num_alive == 0)


async def test_a_draft_that_hangs_costs_one_deadline_and_comes_back():
    """The late answer is understood, the rounds go on, and the text is the same."""
    draft, sink = ScriptedDraft(), Collector()
    hung = []

    def hang_once(ids, propose):
        if len(ids) > len(PROMPT) + 8 and not hung:
            hung.append(len(ids))
            return None
        return scripted.good(ids, propose)

    draft.behave = hang_once
    async with house([ScriptedTarget()], [draft]) as pair:
        stats = await pair.coordinator.run(request(200, 3), sink)
        assert pair.count("forerun_draft_fallbacks_total", reason="late") == 1
    assert sink.tokens == continuation(PROMPT, 200)
    assert hung and stats.num_accepted_tokens > 60


async def test_a_draft_that_dies_is_rejoined_when_it_is_back(monkeypatch):
    monkeypatch.setattr(draft_link, "FIRST_BACKOFF_S", 0.01)
    draft, gate = ScriptedDraft(), asyncio.Event()
    gate.set()
    target = ScriptedTarget(gate=gate)
    sink = Collector(on_push=lambda sink: gate.clear() if len(sink.tokens) == 30 else None)

    async def bring_back(pair):
        """Stops the text at 30 tokens, until the draft is taken for well again."""
        await draft.seen.until(lambda seen: len(seen.opens) >= 1)
        while gate.is_set():
            await asyncio.sleep(0.001)
        draft.behave = scripted.good
        for replica in pair.drafts.all:
            await pair.drafts.probe(replica)
        await asyncio.sleep(0.02)
        gate.set()

    draft.behave = lambda ids, propose: scripted.good(ids, propose) if len(ids) < 30 else scripted.dies(ids, propose)
    async with house([target], [draft]) as pair:
        helper = asyncio.create_task(bring_back(pair))
        stats = await pair.coordinator.run(request(400, 3), sink)
        await helper
        assert pair.count("forerun_draft_fallbacks_total", reason="gone") >= 1
    assert sink.tokens == continuation(PROMPT, 400)
    assert len(draft.seen.opens) >= 2
    assert len(draft.seen.opens[-1].prompt) > len(PROMPT)
    assert stats.num_accepted_tokens > 100


async def test_a_draft_that_is_not_there_is_done_without_and_joins_later():
    async with serving(ScriptedDraft()) as address:
        pass
    sink, again = Collector(), Collector()
    async with house([ScriptedTarget()], [address]) as pair:
        stats = await pair.coordinator.run(request(NUM, 3), sink)
        assert stats.num_drafts == 0
        async with serving(ScriptedDraft(), port=int(address.split(":")[1])):
            while not pair.drafts.all[0].healthy:
                await pair.drafts.probe(pair.drafts.all[0])
            stats = await pair.coordinator.run(request(NUM, 3), again)
            assert stats.num_drafts > 0
    assert sink.tokens == again.tokens == TEXT


@pytest.mark.parametrize("k", [0, 3])
@pytest.mark.parametrize("num_verdicts", [0, 1, 7])
async def test_a_target_that_dies_is_replaced_by_another_with_the_committed_tokens(k, num_verdicts):
    dying = [ScriptedTarget(die_after=num_verdicts), ScriptedTarget(die_after=num_verdicts)]
    lasting, sink = ScriptedTarget(), Collector()
    async with house([*dying, lasting], [ScriptedDraft()]) as pair:
        await pair.coordinator.run(request(NUM, k), sink)
    assert sink.tokens == TEXT
    assert all(list(each.prompt)[: len(PROMPT)] == list(PROMPT) for each in lasting.seen.opens)
    assert all(each.num_prompt_tokens == len(PROMPT) for each in lasting.seen.opens)


async def test_prompt_logprobs_are_not_asked_for_twice():
    sink = Collector()
    async with house([ScriptedTarget(die_after=2), ScriptedTarget(die_after=2), ScriptedTarget()]) as pair:
        await pair.coordinator.run(request(NUM, 0, num_prompt_logprobs=0), sink)
    assert sink.tokens == TEXT and len(sink.prompt_logprobs) == len(PROMPT) - 1


async def test_when_no_target_is_left_the_request_ends_with_an_error():
    async with house([ScriptedTarget(die_after=5)]) as pair:
        with pytest.raises(ServiceUnavailable):
            await pair.coordinator.run(request(NUM, 0), Collector())


async def test_a_target_that_falls_silent_is_replaced():
    stuck, sink = [ScriptedTarget(gate=asyncio.Event()) for _ in range(2)], Collector()
    async with house([*stuck, ScriptedTarget()], target_timeout_s=0.1) as pair:
        await pair.coordinator.run(request(NUM, 0), sink)
    assert sink.tokens == TEXT


async def test_a_target_that_falls_silent_is_not_asked_again_where_there_is_no_other():
    target, timeout_s = ScriptedTarget(gate=asyncio.Event()), 0.2
    async with house([target], target_timeout_s=timeout_s) as pair:
        async with asyncio.timeout(2 * timeout_s):
            with pytest.raises(DeadlineExceeded, match="silent"):
                await pair.coordinator.run(request(NUM, 0), Collector())
    assert len(target.seen.opens) == 1


def _garble(**fields):
    def garble(verdict):
        for name, value in fields.items():
            setattr(verdict, name, value)

    return garble


@pytest.mark.parametrize("garble", [_garble(base_len=3), _garble(num_accepted=9), _garble(token=999)])
async def test_a_verdict_that_cannot_be_is_not_committed(garble):
    sink = Collector()
    async with house([ScriptedTarget(garble=garble)]) as pair:
        with pytest.raises(ServiceUnavailable, match="target"):
            await pair.coordinator.run(request(NUM, 0), sink)
    assert sink.tokens == []


@pytest.mark.parametrize(
    ("code", "error"),
    [(grpc.StatusCode.INVALID_ARGUMENT, InvalidRequest), (grpc.StatusCode.RESOURCE_EXHAUSTED, Overloaded)],
)
async def test_a_fault_of_the_target_reaches_the_client_as_what_it_is(code, error):
    target = ScriptedTarget(fault=common_pb2.Fault(code=code.value[0], message="top_p of 7 is over 1"))
    async with house([target]) as pair:
        with pytest.raises(error, match="top_p of 7"):
            await pair.coordinator.run(request(NUM, 0), Collector())
    assert len(target.seen.opens) == (1 if error is InvalidRequest else 5)


async def test_a_client_that_leaves_frees_both_services_within_a_second_and_neighbours_go_on_case_25():
    gate, started = asyncio.Event(), asyncio.Event()
    gate.set()
    target, draft = ScriptedTarget(gate=gate), ScriptedDraft()

    def stop_there(sink):
        if len(sink.tokens) == 10:
            gate.clear()
            started.set()

    leaver, neighbour = Collector(on_push=stop_there), Collector()
    async with house([target], [draft]) as pair:
        other = asyncio.create_task(pair.coordinator.run(request(NUM, 3), neighbour))
        leaving = asyncio.create_task(pair.coordinator.run(request(10**6, 3), leaver))
        await started.wait()
        leaving.cancel()
        left_at = asyncio.get_running_loop().time()
        await draft.seen.until(lambda seen: seen.num_aborted == 1, 1.0)
        gate.set()
        await target.seen.until(lambda seen: seen.num_aborted == 1, 1.0)
        assert asyncio.get_running_loop().time() - left_at < 1.0
        await other
        await target.seen.until(lambda seen: seen.num_finished == 1 and seen.num_alive == 0)
        with pytest.raises(asyncio.CancelledError):
            await leaving
        assert all(replica.num_sequences == 0 for replica in (*pair.targets.all, *pair.drafts.all))
    assert neighbour.tokens == TEXT


async def test_an_answer_that_comes_too_late_is_dropped_and_counted():
    draft, sink = ScriptedDraft(), Collector()
    late = []

    def answer_late(ids, propose):
        """One proposal comes only with the next question."""
        if len(ids) > len(PROMPT) + 8 and not late:
            late.append(scripted.good(ids, propose))
            return None
        if len(late) == 1:
            late.append(None)
            return late[0]
        return scripted.good(ids, propose)

    draft.behave = answer_late
    async with house([ScriptedTarget()], [draft]) as pair:
        await pair.coordinator.run(request(200, 3), sink)
    assert sink.tokens == continuation(PROMPT, 200)
    assert len(late) == 2
