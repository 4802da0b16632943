"""The messages of docs/protocol.md against a running draft and target: grants, Held, resends, overtaking."""

from itertools import pairwise

import grpc
import pytest

from forerun.rpc.convert import sampling_to_pb
from forerun.transcript_hash import transcript_hash
from forerun.v1 import common_pb2, target_pb2
from tests.support.wire import GREEDY, SAMPLED, SEEDED, DraftLine, TargetLine, alone, clients

PROMPT = [1, 5, 9, 30, 12]
NUM_TOKENS = 30


async def plain(client, params=SEEDED, num_tokens=NUM_TOKENS):
    return (await alone(client, PROMPT, num_tokens, params, seed=3)).ids


def proposal(transcript, tokens):
    return common_pb2.Proposal(base_len=len(transcript), tokens=tokens)


async def silence(line, transcript):
    """Proves that no further verdict is on its way: the reply to a message sent now is the next one."""
    line.verify([*transcript, 5], base_len=len(transcript) + 1)
    held = await line.expect(common_pb2.Held)
    assert held.len == len(transcript)


@pytest.mark.parametrize("grant", [0, 1, 7])
async def test_a_grant_gives_one_verdict_and_grant_more_each_after_the_token_before(tiny_target, grant):
    async with clients(tiny_target.address) as (target, _):
        ids = await plain(target)
        line = TargetLine(target, PROMPT, SEEDED, seed=3)
        line.verify(PROMPT, grant=grant)
        verdicts = [await line.verdict() for _ in range(1 + grant)]
        await silence(line, PROMPT + ids[: 1 + grant])
        await line.finish()
    assert [verdict.base_len for verdict in verdicts] == list(range(len(PROMPT), len(PROMPT) + 1 + grant))
    assert [verdict.token for verdict in verdicts] == ids[: 1 + grant]
    assert {verdict.num_accepted for verdict in verdicts} == {0}


async def test_a_grant_goes_on_after_a_verified_proposal(tiny_target):
    async with clients(tiny_target.address) as (target, _):
        ids = await plain(target)
        line = TargetLine(target, PROMPT, SEEDED, seed=3)
        line.verify(PROMPT, proposal(PROMPT, [*ids[:3], (ids[3] + 1) % 64, 7]), grant=4)
        verdicts = [await line.verdict() for _ in range(5)]
        await silence(line, PROMPT + ids[:8])
        await line.finish()
    assert [(v.base_len, v.num_accepted, v.token) for v in verdicts] == [
        (5, 3, ids[3]),
        *((9 + i, 0, ids[4 + i]) for i in range(4)),
    ]


async def test_a_renewed_grant_raises_the_limit_and_repeats_nothing(tiny_target):
    """The renewal names a transcript that the target has left behind: what it produced since counts."""
    async with clients(tiny_target.address) as (target, _):
        ids = await plain(target)
        line = TargetLine(target, PROMPT, SEEDED, seed=3)
        line.verify(PROMPT, grant=5)
        got = [(await line.verdict()).token for _ in range(3)]
        line.verify(PROMPT + got, grant=9)
        got += [(await line.verdict()).token for _ in range(10)]
        await silence(line, PROMPT + got)
        await line.finish()
    assert got == ids[:13]


async def test_a_resent_message_after_its_verdicts_asks_for_nothing_twice(tiny_target):
    async with clients(tiny_target.address) as (target, _):
        ids = await plain(target)
        line = TargetLine(target, PROMPT, SEEDED, seed=3)
        line.verify(PROMPT, grant=2)
        first = [(await line.verdict()).token for _ in range(3)]
        line.verify(PROMPT, grant=2)
        await silence(line, PROMPT + ids[:3])
        await line.finish()
    assert first == ids[:3]


async def test_a_proposal_for_an_overtaken_transcript_is_dropped(tiny_target):
    """The target went on under its grant meanwhile; the late proposal changes nothing."""
    async with clients(tiny_target.address) as (target, _):
        ids = await plain(target)
        line = TargetLine(target, PROMPT, SEEDED, seed=3)
        line.verify(PROMPT, grant=3)
        got = [(await line.verdict()).token for _ in range(4)]
        line.verify(PROMPT + got[:2], proposal(PROMPT + got[:2], ids[2:6]), grant=4)
        late = [await line.verdict() for _ in range(3)]
        await silence(line, PROMPT + ids[:7])
        await line.finish()
    assert [(v.base_len, v.num_accepted, v.token) for v in late] == [(9 + i, 0, ids[4 + i]) for i in range(3)]


async def test_a_newer_verify_supersedes_the_one_in_flight(tiny_target):
    """A burst of contradicting messages; the last one decides how far it goes and the text is that of the seed."""
    async with clients(tiny_target.address) as (target, _):
        ids = await plain(target)
        line = TargetLine(target, PROMPT, SEEDED, seed=3)
        line.verify(PROMPT)
        transcript = [*PROMPT, (await line.verdict()).token]
        for tokens in ([9] * 6, ids[1:5], [63, 62], []):
            await _write_now(line, transcript, tokens, grant=0)
        await _write_now(line, transcript, [], grant=11)
        while len(transcript) < len(PROMPT) + 13:
            verdict = await line.verdict()
            assert verdict.base_len == len(transcript)
            transcript += [*ids[len(transcript) - 5 :][: verdict.num_accepted], verdict.token]
        await line.finish()
    assert transcript[5:] == ids[: len(transcript) - 5]


async def test_a_target_that_holds_too_little_says_how_much_and_takes_the_tail(tiny_target):
    """Restart, eviction and failover are this path."""
    async with clients(tiny_target.address) as (target, _):
        ids = await plain(target)
        line = TargetLine(target, PROMPT, SEEDED, seed=3)
        line.verify(PROMPT + ids[:10], base_len=len(PROMPT) + 8, grant=3)
        held = await line.expect(common_pb2.Held)
        line.verify(PROMPT + ids[:10], base_len=held.len, grant=3)
        got = [(await line.verdict()).token for _ in range(4)]
        await line.finish()
    assert held.len == len(PROMPT)
    assert got == ids[10:14]


async def test_a_sequence_reopened_elsewhere_goes_on_with_the_same_text(tiny_target):
    """Failover: the new stream's prompt is the transcript, of which the client wrote the first part."""
    async with clients(tiny_target.address) as (target, _):
        ids = await plain(target)
        line = TargetLine(target, PROMPT + ids[:9], SEEDED, seed=3, num_prompt_tokens=len(PROMPT))
        line.verify(PROMPT + ids[:9], grant=9)
        got = [(await line.verdict()).token for _ in range(10)]
        await line.finish()
    assert got == ids[9:19]


async def test_a_transcript_that_takes_back_signed_tokens_is_followed(tiny_target):
    """The gateway's transcript is the only truth: what was signed for on another branch is forgotten."""
    async with clients(tiny_target.address) as (target, _):
        line = TargetLine(target, PROMPT, GREEDY)
        line.verify(PROMPT, grant=6)
        for _ in range(7):
            await line.verdict()
        other = [*PROMPT, 40, 41, 42]
        line.verify(other, base_len=len(PROMPT))
        verdict = await line.verdict()
        fresh = await alone(target, other, 1, GREEDY)
        await line.finish()
    assert (verdict.base_len, verdict.token) == (len(other), fresh.ids[0])


async def test_a_draft_answers_held_keeps_its_own_tokens_and_forgets_the_rest(tiny_draft):
    """Case 26: after any mixture of accepted and rejected tokens the proposal is that of a fresh sequence."""
    async with clients(tiny_draft.address, tiny_draft.address) as (_, draft):
        line = DraftLine(draft, PROMPT, SEEDED, seed=3)
        line.ask([*PROMPT, 7, 8], 4, base_len=len(PROMPT) + 2)
        assert (await line.expect(common_pb2.Held)).len == len(PROMPT)
        transcript = list(PROMPT)
        drafted = (await line.propose(transcript, 6)).tokens
        for num_accepted in (6, 0, 3, 5, 1):
            base_len = len(transcript) + num_accepted
            transcript += [*drafted[:num_accepted], 33]
            drafted = (await line.propose(transcript, 6, base_len)).tokens
            fresh = DraftLine(draft, transcript, SEEDED, seed=3, num_prompt_tokens=len(PROMPT))
            assert list((await fresh.propose(transcript, 6)).tokens) == list(drafted)
            await fresh.finish()
        assert line.num_held == 0
        await line.finish()


async def test_a_newer_propose_supersedes_and_is_the_one_that_is_answered(tiny_draft):
    async with clients(tiny_draft.address, tiny_draft.address) as (_, draft):
        line = DraftLine(draft, PROMPT, SEEDED, seed=3)
        line.ask(PROMPT, 64)
        line.ask([*PROMPT, 11], 2, base_len=len(PROMPT))
        reply = await line.expect(common_pb2.Proposal)
        if reply.base_len == len(PROMPT):
            reply = await line.expect(common_pb2.Proposal)
        await line.finish()
    assert (reply.base_len, len(reply.tokens)) == (len(PROMPT) + 1, 2)


async def test_a_draft_past_its_deadline_answers_with_what_it_has(tiny_draft):
    async with clients(tiny_draft.address, tiny_draft.address) as (_, draft):
        line = DraftLine(draft, PROMPT, SEEDED, seed=3)
        whole = (await line.propose(PROMPT, 200)).tokens
        line.ask(PROMPT, 200, deadline_s=1e-3)
        reply = await line.expect(common_pb2.Proposal)
        await line.finish()
    assert len(reply.tokens) < len(whole) == 200
    assert list(reply.tokens) == list(whole[: len(reply.tokens)])


async def test_a_draft_ends_its_proposal_where_the_next_token_is_of_too_little_use(tiny_draft):
    """As far as it goes it drafts what it would have drafted anyway, with its laws."""
    between = 0
    async with clients(tiny_draft.address, tiny_draft.address) as (_, draft):
        for first in range(12):
            prompt, drafted = [*PROMPT, first], []
            line = DraftLine(draft, prompt, SAMPLED, seed=3)
            for line.min_survival in (0.0, 0.05, 0.2, 0.4, 0.999):
                reply = await line.propose(prompt, 8)
                assert len(reply.support_lens) == len(reply.tokens)
                drafted.append(list(reply.tokens))
            await line.finish()
            assert len(drafted[0]) == 8 and len(drafted[-1]) == 1
            assert all(less == more[: len(less)] for more, less in pairwise(drafted))
            between += sum(1 < len(tokens) < 8 for tokens in drafted)
    assert between > 0


async def _write_now(line, transcript, tokens, grant):
    """Past the client's rule that a newer message replaces one that is not on its way yet."""
    drafted = proposal(transcript, tokens) if tokens else None
    message = target_pb2.Verify(
        base_len=len(transcript), hash=transcript_hash(transcript), proposal=drafted, grant=grant
    )
    await line.stream._call.write(target_pb2.TargetRequest(verify=message))


@pytest.mark.parametrize("when", ["first", "later"])
async def test_bytes_that_are_no_message_end_their_stream_with_a_reason(tiny_target, when):
    opened = target_pb2.TargetOpen(prompt=PROMPT, num_prompt_tokens=len(PROMPT), sampling=sampling_to_pb(GREEDY))
    first = target_pb2.TargetRequest(open=opened)
    garbage = b"\xff\xff\xff"
    messages = [garbage] if when == "first" else [first.SerializeToString(), garbage]
    async with grpc.aio.insecure_channel(tiny_target.address) as channel:
        call = channel.stream_stream("/forerun.v1.TargetService/Verify")(iter(messages))
        if when == "later":
            fault = target_pb2.TargetReply.FromString(await call.read()).fault
            assert fault.code == grpc.StatusCode.INVALID_ARGUMENT.value[0]
        else:
            assert await call.code() is grpc.StatusCode.INVALID_ARGUMENT
            assert "no message" in await call.details()
