"""Streams to running services, and whole generations conducted over them as simply as can be."""

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from forerun.errors import ForerunError
from forerun.rpc.clients import DraftClient, TargetClient
from forerun.rpc.convert import sampling_to_pb
from forerun.sampling.noise import derive_key
from forerun.transcript_hash import transcript_hash
from forerun.types import SamplingParams, Verification
from forerun.v1 import common_pb2, draft_pb2, target_pb2

REPLY_S = 30.0


class Line:
    """One stream: messages out, replies in order."""

    def __init__(self, client, first, request_type):
        self._request_type = request_type
        self._replies = asyncio.Queue()
        self.waited_for = []
        self.stream = client.open(first, self._replies.put_nowait)

    def post(self, **message):
        """Sends one message of the stream's oneof."""
        self.stream.post(self._request_type(**message))

    async def reply(self, timeout_s=REPLY_S):
        """The next reply but Waiting and Draining: the inner message, or an error that ended the stream."""
        async with asyncio.timeout(timeout_s):
            while isinstance(reply := await self._any_reply(), common_pb2.Waiting | common_pb2.Draining):
                if isinstance(reply, common_pb2.Waiting):
                    self.waited_for.append(reply.reason)
            return reply

    async def expect(self, kind):
        """The next reply, which must be a `kind`."""
        reply = await self.reply()
        assert isinstance(reply, kind), f"expected {kind.__name__}, got {reply!r}"
        return reply

    async def until_waiting(self, num_times):
        """What came before the stream said so many times in all that it waits."""
        others = []
        async with asyncio.timeout(REPLY_S):
            while len(self.waited_for) < num_times:
                reply = await self._any_reply()
                if isinstance(reply, common_pb2.Waiting):
                    self.waited_for.append(reply.reason)
                else:
                    others.append(reply)
        return others

    async def _any_reply(self):
        reply = await self._replies.get()
        return reply if isinstance(reply, ForerunError) else getattr(reply, reply.WhichOneof("message"))

    def has_reply(self):
        """Whether a reply waits to be read."""
        return not self._replies.empty()

    async def finish(self):
        """Ends the stream normally and waits until it is closed."""
        self.stream.end(self._request_type(finish=common_pb2.Finish()))
        await self.stream.closed()


class TargetLine(Line):
    """A sequence on a target."""

    def __init__(self, client, prompt, params, /, seed=0, choice=0, **opened):
        usual = {"prompt": prompt, "num_prompt_tokens": len(prompt), "sampling": sampling_to_pb(params)}
        first = target_pb2.TargetOpen(seed=seed, choice=choice, **{**usual, **opened})
        super().__init__(client, first, target_pb2.TargetRequest)

    def verify(self, transcript, proposal=None, grant=0, base_len=None):
        """Sends Verify for `transcript`, of which the target is told the ids from base_len on."""
        base_len = len(transcript) if base_len is None else base_len
        self.post(
            verify=target_pb2.Verify(
                base_len=base_len, ids=transcript[base_len:], hash=transcript_hash(transcript), proposal=proposal,
                grant=grant,
            )
        )  # fmt: skip

    async def verdict(self):
        """The next reply, which must be a verdict."""
        return await self.expect(target_pb2.Verdict)


class DraftLine(Line):
    """A sequence on a draft."""

    def __init__(self, client, prompt, params, /, seed=0, choice=0, **opened):
        purpose = "draft" if params.verification.needs_laws else "match"
        usual = {"prompt": prompt, "num_prompt_tokens": len(prompt), "sampling": sampling_to_pb(params)}
        first = draft_pb2.DraftOpen(noise_key=derive_key(seed, choice, purpose), **{**usual, **opened})
        super().__init__(client, first, draft_pb2.DraftRequest)
        self.num_held, self.min_survival = 0, 0.0

    def ask(self, transcript, k, base_len=None, deadline_s=0.0, **ahead):
        """Sends Propose for `transcript`."""
        base_len = len(transcript) if base_len is None else base_len
        self.post(
            propose=draft_pb2.Propose(
                base_len=base_len, ids=transcript[base_len:], hash=transcript_hash(transcript), k=k,
                deadline_s=deadline_s, min_survival=self.min_survival, **ahead,
            )
        )  # fmt: skip

    async def propose(self, transcript, k, base_len=None):
        """The draft's proposal of up to k tokens after `transcript`; sends the tail where it holds too little."""
        self.ask(transcript, k, base_len)
        reply = await self.reply()
        if isinstance(reply, common_pb2.Held):
            self.num_held += 1
            self.ask(transcript, k, reply.len)
            reply = await self.reply()
        assert isinstance(reply, common_pb2.Proposal), f"expected a proposal, got {reply!r}"
        return reply


@dataclass
class Generated:
    """What a generation gave; rounds has (proposal, verdict) for every verdict that followed one."""

    ids: list
    logprobs: list = field(default_factory=list)
    rounds: list = field(default_factory=list)

    @property
    def num_accepted(self):
        return sum(verdict.num_accepted for _, verdict in self.rounds)


@asynccontextmanager
async def clients(target, draft=None):
    """A TargetClient and, where an address is given, a DraftClient; both are connected.

    A stream fails at once where the attempt to connect takes too long, as it may on a machine that is busy.
    """
    opened = [TargetClient(target), DraftClient(draft) if draft else None]
    try:
        async with asyncio.timeout(REPLY_S):
            for client in filter(None, opened):
                await client._channels.ready()
        yield opened
    finally:
        for client in opened:
            if client is not None:
                await client.close()


async def alone(client, prompt, num_tokens, params, seed=0, choice=0, **opened):
    """Plain decoding: one Verify, everything else by its grant."""
    line = TargetLine(client, prompt, params, seed, choice, **opened)
    line.verify(prompt, grant=num_tokens - 1)
    out = Generated([])
    for _ in range(num_tokens):
        verdict = await line.verdict()
        out.ids.append(verdict.token)
        out.logprobs.extend(verdict.logprobs)
    await line.finish()
    return out


async def speculated(client, drafter, prompt, num_tokens, params, seed=0, choice=0, k=4, **opened):
    """Round after round: drafter.propose(transcript, k), then Verify. `drafter` may be a DraftLine."""
    line = TargetLine(client, prompt, params, seed, choice, **opened)
    transcript, out = list(prompt), Generated([])
    base_len = len(prompt)
    while len(out.ids) < num_tokens:
        proposal = await drafter.propose(transcript, min(k, num_tokens - len(out.ids)), base_len)
        line.verify(transcript, proposal)
        verdict = await line.verdict()
        assert verdict.base_len == len(transcript)
        new = [*proposal.tokens[: verdict.num_accepted], verdict.token]
        base_len = len(transcript) + verdict.num_accepted
        transcript += new
        out.ids += new
        out.logprobs.extend(verdict.logprobs)
        out.rounds.append((proposal, verdict))
    await line.finish()
    del out.ids[num_tokens:], out.logprobs[num_tokens:]
    return out


async def drafted(target, draft, prompt, num_tokens, params, seed=0, choice=0, k=4, min_survival=0.0, **opened):
    """`speculated` with a draft service, which may end its proposals early."""
    drafter = DraftLine(draft, prompt, params, seed, choice)
    drafter.min_survival = min_survival
    try:
        return await speculated(target, drafter, prompt, num_tokens, params, seed, choice, k, **opened)
    finally:
        await drafter.finish()


GREEDY = SamplingParams(temperature=0.0, verification=Verification.MATCH)
SEEDED = SamplingParams(verification=Verification.MATCH)
SAMPLED = SamplingParams(verification=Verification.REJECTION)
