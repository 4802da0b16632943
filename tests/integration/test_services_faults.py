"""Bad messages end their own stream, with a sentence; a neighbour on the same service goes on undisturbed."""

import asyncio
from contextlib import asynccontextmanager

import grpc
import pytest

from forerun.errors import InvalidRequest
from forerun.rpc.convert import sampling_to_pb
from forerun.transcript_hash import transcript_hash
from forerun.types import SamplingParams
from forerun.v1 import common_pb2, draft_pb2, target_pb2
from tests.support.wire import GREEDY, SAMPLED, SEEDED, DraftLine, TargetLine, alone, clients

PROMPT = [1, 5, 9, 30, 12]


@asynccontextmanager
async def neighbour(client, num_tokens=60):
    """A sequence that runs meanwhile; its text is checked at the end."""
    expected = (await alone(client, PROMPT, num_tokens, SEEDED, seed=2)).ids
    line = TargetLine(client, PROMPT, SEEDED, seed=2)
    line.verify(PROMPT, grant=num_tokens // 2 - 1)
    got = [(await line.verdict()).token]
    yield
    got += [(await line.verdict()).token for _ in range(num_tokens // 2 - 1)]
    line.verify(PROMPT + got, grant=num_tokens // 2 - 1)
    got += [(await line.verdict()).token for _ in range(num_tokens // 2)]
    await line.finish()
    assert got == expected


OPENS = {
    "no prompt": ({"prompt": []}, "at least one token"),
    "an id out of range": ({"prompt": [1, 64]}, "outside the vocabulary of 64 ids"),
    "a huge id": ({"prompt": [1, 2**32 - 1]}, "outside the vocabulary"),
    "no rule": ({"sampling": common_pb2.Sampling(temperature=1)}, "verification rule"),
    "NaN": ({"sampling": common_pb2.Sampling(temperature=float("nan"), verification=1)}, "temperature is nan"),
    "negative": ({"sampling": common_pb2.Sampling(temperature=-1, verification=2)}, "temperature is -1"),
    "top_p 7": ({"sampling": common_pb2.Sampling(top_p=7, repetition_penalty=1, verification=2)}, "top_p is 7"),
}


@pytest.mark.parametrize("name", OPENS)
async def test_a_target_refuses_an_open_that_cannot_be_served(tiny_target, name):
    fields, told = OPENS[name]
    async with clients(tiny_target.address) as (target, _), neighbour(target):
        error = await TargetLine(target, PROMPT, SEEDED, **fields).reply()
    assert isinstance(error, InvalidRequest)
    assert told in str(error)


def bad_proposal(**fields):
    return common_pb2.Proposal(base_len=len(PROMPT), **fields)


VERIFIES = {
    "a wrong hash": ({"hash": 1}, SEEDED, "do not have the hash"),
    "ids out of range": ({"base_len": 5, "ids": [64]}, SEEDED, "outside the vocabulary"),
    "ids past the context": ({"base_len": 5, "ids": [7] * 508}, SEEDED, "over the limit"),
    "laws that do not fit": (
        {"proposal": bad_proposal(tokens=[3], support_lens=[2], support_ids=[3], weights=[1])}, SAMPLED, "do not fit",
    ),
    "an empty law": ({"proposal": bad_proposal(tokens=[3], support_lens=[0])}, SAMPLED, "not empty"),
    "a weight of zero": (
        {"proposal": bad_proposal(tokens=[3], support_lens=[1], support_ids=[3], weights=[0])}, SAMPLED, "at least 1",
    ),
    "a token twice": (
        {"proposal": bad_proposal(tokens=[3], support_lens=[2], support_ids=[3, 3], weights=[1, 1])}, SAMPLED, "twice",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", VERIFIES)
async def test_a_malformed_verify_ends_its_stream_with_a_fault(tiny_target, name):
    fields, params, told = VERIFIES[name]
    async with clients(tiny_target.address) as (target, _), neighbour(target):
        line = TargetLine(target, PROMPT, params)
        ids = list(fields.get("ids", []))
        message = {"base_len": len(PROMPT), "hash": transcript_hash(PROMPT + ids), **fields}
        line.post(verify=target_pb2.Verify(**message))
        fault = await line.expect(common_pb2.Fault)
        await line.stream.closed()
    assert fault.code == grpc.StatusCode.INVALID_ARGUMENT.value[0]
    assert told in fault.message


async def test_a_proposal_that_its_law_and_key_do_not_give_is_refused_and_the_text_goes_on(tiny_target):
    """A buggy draft: not drawn from the law that it reports, or no laws, or a sum of weights past 32 bits."""
    top = 2**32 - 1
    wrong = [
        bad_proposal(tokens=[3], support_lens=[1], support_ids=[4], weights=[1]),
        bad_proposal(tokens=[3, 4]),
        bad_proposal(tokens=[9] * 3, support_lens=[2] * 3, support_ids=[9, 8] * 3, weights=[1, top] * 3),
    ]
    async with clients(tiny_target.address) as (target, _):
        plain = await alone(target, PROMPT, 1, SAMPLED, seed=6)
        for proposal in wrong:
            line = TargetLine(target, PROMPT, SAMPLED, seed=6)
            line.verify(PROMPT, proposal)
            verdict = await line.verdict()
            await line.finish()
            assert verdict.refused
            assert (verdict.num_accepted, verdict.token) == (0, plain.ids[0])


async def test_the_largest_weights_are_computed_with_not_wrapped(tiny_target):
    """Sums past 2^32 are legal: one id of a law, so the keyed draw must give it."""
    top = 2**32 - 1
    async with clients(tiny_target.address) as (target, _):
        line = TargetLine(target, PROMPT, SAMPLED, seed=6)
        ids = [*range(3, 35)]
        line.verify(PROMPT, bad_proposal(tokens=[3], support_lens=[32], support_ids=ids, weights=[top] * 32))
        verdict = await line.verdict()
        await line.finish()
    assert verdict.refused == "" or "drafted token 0 is not the one" in verdict.refused


@pytest.mark.parametrize("base_len", [0, 4, 6, 2**31])
async def test_a_proposal_for_another_place_is_refused_not_shifted(tiny_target, base_len):
    async with clients(tiny_target.address) as (target, _):
        plain = await alone(target, PROMPT, 2, GREEDY)
        line = TargetLine(target, PROMPT, GREEDY)
        line.verify(PROMPT, common_pb2.Proposal(base_len=base_len, tokens=plain.ids))
        verdict = await line.verdict()
        await line.finish()
    assert verdict.refused
    assert (verdict.num_accepted, verdict.token) == (0, plain.ids[0])


async def test_an_absurdly_long_proposal_is_cut_at_the_context_and_verified(tiny_target):
    async with clients(tiny_target.address) as (target, _), neighbour(target):
        plain = await alone(target, PROMPT, 4, GREEDY)
        line = TargetLine(target, PROMPT, GREEDY)
        line.verify(PROMPT, bad_proposal(tokens=[*plain.ids[:3], *[7] * 100_000]))
        verdict = await line.verdict()
        await line.finish()
    assert (verdict.num_accepted, verdict.token) == (3, plain.ids[3])


async def test_a_grant_of_a_million_starves_nobody(tiny_target):
    async with clients(tiny_target.address) as (target, _):
        greedy_one = TargetLine(target, PROMPT, GREEDY)
        greedy_one.verify(PROMPT, grant=1_000_000)
        async with neighbour(target):
            await greedy_one.verdict()
        await greedy_one.finish()


async def test_all_tokens_forbidden_fails_that_sequence_alone(tiny_target):
    params = SamplingParams(logit_bias=tuple((token, -100.0) for token in range(64)))
    async with clients(tiny_target.address) as (target, _), neighbour(target):
        line = TargetLine(target, PROMPT, params)
        line.verify(PROMPT)
        fault = await line.expect(common_pb2.Fault)
    assert fault.code == grpc.StatusCode.ABORTED.value[0]
    assert "forbidden" in fault.message


FIRSTS = {
    "verify": target_pb2.TargetRequest(verify=target_pb2.Verify(base_len=1)),
    "finish": target_pb2.TargetRequest(finish=common_pb2.Finish()),
    "nothing": target_pb2.TargetRequest(),
}


@pytest.mark.parametrize("name", FIRSTS)
async def test_a_stream_that_does_not_start_with_open_is_refused(tiny_target, name):
    status = await _status(tiny_target, "TargetService/Verify", FIRSTS[name])
    assert status[0] is grpc.StatusCode.INVALID_ARGUMENT
    assert "starts with an open message" in status[1]


async def test_a_second_open_and_an_empty_message_are_faults(tiny_target, tiny_draft):
    for again in (target_pb2.TargetRequest(open=target_pb2.TargetOpen(prompt=[1])), target_pb2.TargetRequest()):
        async with clients(tiny_target.address) as (target, _), neighbour(target):
            line = TargetLine(target, PROMPT, SEEDED)
            line.stream.post(again)
            assert "expected a request" in (await line.expect(common_pb2.Fault)).message
    async with clients(tiny_draft.address, tiny_draft.address) as (_, draft):
        line = DraftLine(draft, PROMPT, SEEDED)
        line.stream.post(draft_pb2.DraftRequest())
        assert "expected a request" in (await line.expect(common_pb2.Fault)).message


async def test_bytes_that_are_no_message_end_their_call_alone(tiny_target):
    async with (
        clients(tiny_target.address) as (target, _),
        neighbour(target),
        grpc.aio.insecure_channel(tiny_target.address) as channel,
    ):
        call = channel.stream_stream("/forerun.v1.TargetService/Verify")()
        await call.write(b"\xff\xfe not a message")
        assert await asyncio.wait_for(call.code(), 10) is not grpc.StatusCode.OK


DRAFT_OPENS = {
    "a short key": ({"noise_key": b"short"}, "16 bytes"),
    "an id out of range": ({"prompt": [1, 70]}, "outside the vocabulary"),
    "no rule": ({"sampling": common_pb2.Sampling(temperature=1)}, "verification rule"),
    "no prompt": ({"prompt": []}, "prompt"),
}


@pytest.mark.parametrize("name", DRAFT_OPENS)
async def test_a_draft_refuses_an_open_that_cannot_be_served(tiny_draft, name):
    fields, told = DRAFT_OPENS[name]
    opened = {"prompt": PROMPT, "sampling": sampling_to_pb(SAMPLED), "noise_key": b"k" * 16}
    first = draft_pb2.DraftRequest(open=draft_pb2.DraftOpen(**{**opened, **fields}))
    status = await _status(tiny_draft, "DraftService/Draft", first)
    assert status[0] is grpc.StatusCode.INVALID_ARGUMENT
    assert told in status[1]


async def test_a_malformed_propose_ends_its_stream_with_a_fault(tiny_draft):
    async with clients(tiny_draft.address, tiny_draft.address) as (_, draft):
        for fields, told in (({"hash": 5}, "hash"), ({"ids": [99]}, "outside the vocabulary")):
            line = DraftLine(draft, PROMPT, SEEDED)
            line.post(propose=draft_pb2.Propose(**{"base_len": 5, "k": 3, "hash": transcript_hash(PROMPT), **fields}))
            assert told in (await line.expect(common_pb2.Fault)).message


async def test_a_transcript_without_tokens_is_a_fault_not_the_end_of_the_draft(tiny_draft, tiny_ngram):
    """Every field at its default: base_len 0, no ids, and the hash of nothing, which is 0."""
    for service in (tiny_draft, tiny_ngram):
        async with clients(service.address, service.address) as (_, draft):
            line = DraftLine(draft, PROMPT, SEEDED)
            line.post(propose=draft_pb2.Propose(k=3))
            assert "at least one token" in (await line.expect(common_pb2.Fault)).message
            other = DraftLine(draft, [*PROMPT, *PROMPT], SEEDED)
            assert len((await other.propose([*PROMPT, *PROMPT], 3)).tokens) == 3
            await other.finish()


async def test_a_verify_of_defaults_commits_nothing_and_asks_for_one_token_less(tiny_target):
    """It names an empty transcript, which the prompt extends: nothing is due."""
    async with clients(tiny_target.address) as (target, _), neighbour(target):
        line = TargetLine(target, PROMPT, GREEDY)
        line.post(verify=target_pb2.Verify())
        line.verify(PROMPT)
        assert (await line.verdict()).base_len == len(PROMPT)
        await line.finish()


async def test_an_absurd_k_is_cut_at_the_drafts_context(tiny_draft):
    async with clients(tiny_draft.address, tiny_draft.address) as (_, draft):
        prompt = [3 + i % 50 for i in range(500)]
        line = DraftLine(draft, prompt, SEEDED)
        assert len((await line.propose(prompt, 2**31)).tokens) == 13
        await line.finish()


async def _status(service, method, first):
    """Code and details of a call whose only message is `first`."""
    async with grpc.aio.insecure_channel(service.address) as channel:
        call = channel.stream_stream(
            f"/forerun.v1.{method}", request_serializer=lambda message: message.SerializeToString()
        )()
        await call.write(first)
        return await asyncio.wait_for(call.code(), 10), await call.details()
