"""Draft and target services over real sockets that follow a script: good, slow, silent, hostile or dying.

Both play one deterministic language, `next_token`, under the match rule; so what must come out is known.
"""

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import grpc

from forerun.rpc.convert import info_to_pb
from forerun.rpc.server import Server, ServerSettings
from forerun.transcript_hash import transcript_hash
from forerun.types import ServiceInfo, Verification
from forerun.v1 import common_pb2, draft_pb2, draft_pb2_grpc, target_pb2, target_pb2_grpc

VOCAB = 64
TOKENS = tuple(f"t{i}" for i in range(VOCAB))


def next_token(ids):
    """The one true continuation of a transcript."""
    return (sum(ids[-3:]) * 7 + len(ids) * 5 + 1) % VOCAB


def continuation(prompt, num_tokens):
    ids = list(prompt)
    for _ in range(num_tokens):
        ids.append(next_token(ids))
    return ids[len(prompt) :]


def info(service, **changes):
    known = {
        "service": service,
        "version": "1",
        "model": f"scripted-{service}",
        "vocab_size": VOCAB,
        "fingerprint": "fingerprint",
        "eos_token_ids": (0,),
        "max_model_len": 0,
        "backend": "script",
        "verifications": tuple(Verification),
    }
    return ServiceInfo(**{**known, **changes})


@dataclass
class Seen:
    """What a service saw, for tests to wait for and look at."""

    opens: list = field(default_factory=list)
    messages: list = field(default_factory=list)
    num_finished: int = 0
    num_aborted: int = 0
    num_overtaken: int = 0
    num_produced: int = 0
    num_alive: int = 0
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def tell(self):
        async with self.changed:
            self.changed.notify_all()

    async def until(self, fact, timeout_s=5.0):
        """Returns when `fact(self)` holds; fails after the timeout."""
        async with asyncio.timeout(timeout_s), self.changed:
            await self.changed.wait_for(lambda: fact(self))


class _Context:
    """A call's context whose messages may come from several tasks."""

    def __init__(self, context):
        self._context, self._writing = context, asyncio.Lock()
        self.read, self.abort = context.read, context.abort

    async def write(self, reply):
        async with self._writing:
            await self._context.write(reply)


class _Scripted:
    def __init__(self, info_, tokens=TOKENS):
        self.info, self.tokens, self.seen = info_, tokens, Seen()
        self.contexts = set()

    async def drain(self):
        """Tells every open stream that the service ends."""
        reply = target_pb2.TargetReply if isinstance(self, ScriptedTarget) else draft_pb2.DraftReply
        for context in self.contexts:
            await context.write(reply(draining=common_pb2.Draining()))

    async def say_waiting(self):
        """Tells every open stream of a target that its message waits."""
        for context in self.contexts:
            await context.write(target_pb2.TargetReply(waiting=common_pb2.Waiting(reason="queued")))

    async def Info(self, request, context):
        return info_to_pb(self.info)

    async def Vocabulary(self, request, context):
        return common_pb2.Vocabulary(tokens=self.tokens)

    async def _serve(self, raw_context, session_type):
        context = _Context(raw_context)
        session = session_type(self, context)
        self.seen.num_alive += 1
        self.contexts.add(context)
        reading = asyncio.create_task(self._read(context, session))
        try:
            await session.work()
        finally:
            reading.cancel()
            self.contexts.discard(context)
            self.seen.num_alive -= 1
            await self.seen.tell()

    async def _read(self, context, session):
        while (request := await context.read()) is not grpc.aio.EOF:
            kind = request.WhichOneof("message")
            message = getattr(request, kind)
            if kind in ("finish", "abort"):
                self.seen.num_finished += kind == "finish"
                self.seen.num_aborted += kind == "abort"
                break
            if kind == "open":
                self.seen.opens.append(message)
            else:
                self.seen.messages.append(message)
            session.take(kind, message)
            await self.seen.tell()
        session.take("end", None)


class _Session:
    def __init__(self, service, context):
        self.service, self.context = service, context
        self.ids, self.ended = [], False
        self.news = asyncio.Event()

    def synced(self, message):
        """The committed length, or None where tokens are missing. Checks the hash as a real service does."""
        if message.base_len > len(self.ids):
            return None
        new = list(message.ids)
        committed = message.base_len + len(new)
        held = self.ids[message.base_len : committed]
        if held != new[: len(self.ids) - message.base_len] or committed > len(self.ids):
            self.ids = self.ids[: message.base_len] + new
        assert transcript_hash(self.ids[:committed]) == message.hash, "the transcript's hash does not fit"
        return committed


class ScriptedTarget(_Scripted, target_pb2_grpc.TargetServiceServicer):
    """Verifies as a real target does, at no cost.

    die_after: verdicts of the whole service after which every stream breaks. forget_after: verdicts of a stream after
    which it forgets all but 2 tokens, once, as soon as nothing is due. gate: awaited before every step. wait_first:
    sends Waiting that often. fault: sent in place of the first verdict; proposal_fault: of the first on a proposal.
    garble: called with each Verdict before it is sent.
    """

    def __init__(self, info_=None, tokens=TOKENS, **script):
        super().__init__(info_ or info("target"), tokens)
        self.die_after = script.pop("die_after", None)
        self.forget_after = script.pop("forget_after", None)
        self.gate = script.pop("gate", None)
        self.wait_first = script.pop("wait_first", 0)
        self.fault = script.pop("fault", None)
        self.proposal_fault = script.pop("proposal_fault", None)
        self.garble = script.pop("garble", None)
        assert not script, script

    async def Verify(self, request_iterator, context):
        await self._serve(context, _TargetSession)


class _TargetSession(_Session):
    limit, proposal, held, num_verdicts, forgot = 0, None, None, 0, False
    logprobs = None

    def take(self, kind, message):
        if kind == "open":
            self.ids = list(message.prompt)
            if message.HasField("num_prompt_logprobs"):
                self.logprobs = len(self.ids) - 1
        elif kind == "verify":
            self._verify(message)
        else:
            self.ended = True
        self.news.set()

    def _verify(self, message):
        committed = self.synced(message)
        if committed is None:
            self.held = len(self.ids)
            return
        self.limit = committed + 1 + message.grant
        self.proposal = message.proposal if message.HasField("proposal") else None

    async def work(self):
        service = self.service
        for _ in range(service.wait_first):
            await self.context.write(target_pb2.TargetReply(waiting=common_pb2.Waiting(reason="queued")))
        while not self.ended:
            await self.news.wait()
            self.news.clear()
            await self._say_what_is_due()
            while not self.ended and self.held is None and self.limit > len(self.ids):
                await self._step()

    async def _say_what_is_due(self):
        if self.logprobs is not None:
            laws = [target_pb2.TokenLogprobs(logprob=-1.0)] * self.logprobs
            reply = target_pb2.PromptLogprobs(logprobs=laws)
            self.logprobs = None
            await self.context.write(target_pb2.TargetReply(prompt_logprobs=reply))
        if self.held is not None:
            held, self.held = self.held, None
            await self.context.write(target_pb2.TargetReply(held=common_pb2.Held(len=held)))

    async def _step(self):
        service = self.service
        if service.gate is not None:
            await service.gate.wait()
        else:
            await asyncio.sleep(0)
        if self.ended or self.limit <= len(self.ids):
            return
        fault = service.fault or (service.proposal_fault if self.proposal is not None else None)
        if fault is not None:
            await self.context.write(target_pb2.TargetReply(fault=fault))
            self.ended = True
            return
        if service.die_after is not None and service.seen.num_produced >= service.die_after:
            await self.context.abort(grpc.StatusCode.UNAVAILABLE, "the target died")
        await self._verdict()

    def forgets(self):
        """Once, and only while nothing is due: what it owes, a target would compute again by itself."""
        after = self.service.forget_after
        if self.forgot or after is None or self.num_verdicts < after or self.limit > len(self.ids):
            return False
        self.forgot = True
        return True

    async def _verdict(self):
        base_len, num_accepted, num_rows = len(self.ids), 0, 1
        proposal, self.proposal = self.proposal, None
        if proposal is not None and proposal.base_len != base_len:
            self.service.seen.num_overtaken += 1
        elif proposal is not None:
            num_rows += len(proposal.tokens)
            for token in proposal.tokens:
                if token != next_token(self.ids):
                    break
                self.ids.append(token)
                num_accepted += 1
        token = next_token(self.ids)
        self.ids.append(token)
        self.num_verdicts += 1
        self.service.seen.num_produced += 1
        verdict = target_pb2.Verdict(base_len=base_len, num_accepted=num_accepted, token=token, num_rows=num_rows)
        if self.service.garble is not None:
            self.service.garble(verdict)
        await self.context.write(target_pb2.TargetReply(verdict=verdict))
        if self.forgets():
            self.ids = self.ids[:2]
            self.limit = 0


class ScriptedDraft(_Scripted, draft_pb2_grpc.DraftServiceServicer):
    """Answers Propose with `behave(ids, propose) -> reply | None`; None is silence, an exception breaks the stream.

    `behave` may be replaced while streams run; a draft that forgets answers Held once after forget_after proposals.
    `answered` is set with the first proposal: as a target's gate it keeps the text from ending before there is a draft.
    push: `push(ids, tokens, propose) -> replies` that are sent after proposing `tokens`, if asked for.
    """

    def __init__(self, behave=None, info_=None, tokens=TOKENS, forget_after=None, push=None):
        super().__init__(info_ or info("draft"), tokens)
        self.behave = behave or good
        self.push = push
        self.forget_after = forget_after
        self.first_is_good = True
        self.answered = asyncio.Event()

    async def Draft(self, request_iterator, context):
        await self._serve(context, _DraftSession)


class _DraftSession(_Session):
    propose, num_proposals = None, 0

    def take(self, kind, message):
        if kind == "open":
            self.ids = list(message.prompt)
            assert len(message.noise_key) == 16
        elif kind == "propose":
            self.propose = message
        else:
            self.ended = True
        self.news.set()

    async def work(self):
        while not self.ended:
            await self.news.wait()
            self.news.clear()
            propose, self.propose = self.propose, None
            if propose is not None and not self.ended:
                await self._answer(propose)

    async def _answer(self, propose):
        committed = self.synced(propose)
        if committed is None:
            await self.context.write(draft_pb2.DraftReply(held=common_pb2.Held(len=len(self.ids))))
            return
        ids = self.ids[:committed]
        if not propose.known and not await self._propose(ids, propose):
            return
        if propose.known:
            self.ids = ids + continuation(ids, propose.k)
        if self.service.push is not None and propose.num_branches:
            for reply in self.service.push(ids, self.ids[committed:], propose):
                await self.context.write(reply)

    async def _propose(self, ids, propose):
        """Whether it answered and remembers so."""
        behave = good if self.num_proposals == 0 and self.service.first_is_good else self.service.behave
        self.num_proposals += 1
        try:
            reply = behave(ids, propose)
        except ConnectionError as error:
            await self.context.abort(grpc.StatusCode.UNAVAILABLE, str(error))
        if reply is None:
            return False
        self.ids = ids + list(reply.proposal.tokens)
        await self.context.write(reply)
        self.service.answered.set()
        if self.num_proposals == self.service.forget_after:
            self.ids = self.ids[:2]
            return False
        return True


def proposal(base_len, tokens, **laws):
    return draft_pb2.DraftReply(proposal=common_pb2.Proposal(base_len=base_len, tokens=tokens, draft_s=1e-5, **laws))


def good(ids, propose):
    return proposal(len(ids), continuation(ids, propose.k))


def wrong_tokens(ids, propose):
    return proposal(len(ids), [(token + 1) % VOCAB for token in continuation(ids, propose.k)])


def unknown_ids(ids, propose):
    return proposal(len(ids), [2**31 + i for i in range(propose.k)])


def too_many(ids, propose):
    return proposal(len(ids), continuation(ids, propose.k + 100))


def wrong_base(ids, propose):
    return proposal(len(ids) + 3, continuation(ids, propose.k))


def malformed_laws(ids, propose):
    return proposal(len(ids), continuation(ids, propose.k), support_lens=[7], support_ids=[1], weights=[0])


def doubled_laws(ids, propose):
    """Each of the right shape, but for one that names a token twice."""
    tokens = continuation(ids, propose.k)
    num = len(tokens)
    return proposal(len(ids), tokens, support_lens=[2] * num, support_ids=[3, 3] * num, weights=[1, 1] * num)


def empty_message(ids, propose):
    return draft_pb2.DraftReply()


def nothing_to_say(ids, propose):
    return proposal(len(ids), [])


def silent(ids, propose):
    return None


def fault(ids, propose):
    return draft_pb2.DraftReply(fault=common_pb2.Fault(code=grpc.StatusCode.ABORTED.value[0], message="out of luck"))


def dies(ids, propose):
    raise ConnectionError("the draft died")


def outcome(ids, tokens):
    """The transcript that the verification of `tokens` after ids comes to."""
    num_accepted = 0
    while num_accepted < len(tokens) and tokens[num_accepted] == next_token([*ids, *tokens[:num_accepted]]):
        num_accepted += 1
    return ids + continuation(ids, num_accepted + 1)


def pushing(*branches):
    """A push of (transcript that it claims to follow, proposal after base_len, tokens)."""
    made = [
        draft_pb2.Branch(hash=transcript_hash(claimed), proposal=proposal(base_len, tokens, **laws).proposal)
        for claimed, base_len, tokens, laws in branches
    ]
    return draft_pb2.DraftReply(ahead=draft_pb2.Ahead(branches=made))


def foresees(ids, tokens, propose):
    """Knows how it comes out."""
    after = outcome(ids, tokens)
    return [pushing((after, len(after), continuation(after, propose.ahead_k), {}))]


@asynccontextmanager
async def serving(servicer, port=0):
    """Serves a scripted service on a real socket; gives its address. Leaving cuts every stream off."""
    is_draft = isinstance(servicer, ScriptedDraft)
    server = Server(ServerSettings(port=port, grace_s=0), ["forerun.v1.scripted"])
    add = (
        draft_pb2_grpc.add_DraftServiceServicer_to_server
        if is_draft
        else target_pb2_grpc.add_TargetServiceServicer_to_server
    )
    add(servicer, server.grpc_server)
    bound = await server.start()
    await server.set_serving(True)
    try:
        yield f"127.0.0.1:{bound}"
    finally:
        await server.drain()
