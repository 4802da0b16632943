"""Every message of the wire, sane or absurd, to running services: each is answered or refused, and nothing is left."""

import asyncio
import contextlib
import itertools

import grpc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forerun.transcript_hash import transcript_hash
from forerun.v1 import common_pb2, draft_pb2, gateway_pb2, target_pb2
from tests.support.fuzzing import ANSWER_S, cases, count
from tests.support.proto_strategies import messages, mutated

OURS = {grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN, grpc.StatusCode.DEADLINE_EXCEEDED}
CLIENTS_OWN = "Internal error from Core"  # gRPC's own client, writing to a call that just ended
REPLY_S = 0.1  # what a step takes, and a reply to it
PROMPT = [5, 6, 7, 8, 9, 10, 11, 12, 5, 6, 7, 8, 9, 10, 11, 12, 5, 6, 7]
RULES = [common_pb2.VERIFICATION_MATCH, common_pb2.VERIFICATION_REJECTION, common_pb2.VERIFICATION_BLOCK]
STREAMS = {
    "draft": ("/forerun.v1.DraftService/Draft", draft_pb2.DraftRequest, draft_pb2.DraftReply),
    "target": ("/forerun.v1.TargetService/Verify", target_pb2.TargetRequest, target_pb2.TargetReply),
}
UNARY = [(name, common_pb2.InfoRequest, common_pb2.Info) for name in ("Info",)] + [
    ("Vocabulary", common_pb2.VocabularyRequest, common_pb2.Vocabulary)
]


SOUND = common_pb2.Sampling(top_p=1.0, repetition_penalty=1.0)


def opening(kind):
    """A sound open message with a few fields that hold anything."""
    opened = draft_pb2.DraftOpen(noise_key=bytes(16)) if kind is draft_pb2.DraftRequest else target_pb2.TargetOpen()
    sound = []
    for rule, temperature in itertools.product(RULES, (0.0, 1.0)):
        first = type(opened)(prompt=PROMPT, num_prompt_tokens=5, sampling=SOUND)
        first.MergeFrom(opened)
        first.sampling.verification, first.sampling.temperature = rule, temperature
        sound.append(first)
    return st.sampled_from(sound).flatmap(mutated).map(lambda message: kind(open=message))


def question(kind):
    """A sound question about the prompt with a few fields that hold anything."""
    sound = []
    for base_len, few in itertools.product((0, len(PROMPT) - 1, len(PROMPT)), (0, 1, 4)):
        place = {"base_len": base_len, "ids": PROMPT[base_len:], "hash": transcript_hash(PROMPT)}
        if kind is draft_pb2.DraftRequest:
            sound.append(draft_pb2.Propose(**place, k=few, num_branches=few, ahead_k=few))
        else:
            proposal = common_pb2.Proposal(base_len=len(PROMPT), tokens=PROMPT[:few])
            sound.append(target_pb2.Verify(**place, grant=few, proposal=proposal))
    name = "propose" if kind is draft_pb2.DraftRequest else "verify"
    return st.sampled_from(sound).flatmap(mutated).map(lambda message: kind(**{name: message}))


def conversations(kind):
    """An open that is mostly served, then questions that are mostly understood, and anything between them."""
    anything = messages(kind)
    first = st.integers(0, 7).flatmap(lambda one: anything if one == 0 else opening(kind))
    then = st.integers(0, 3).flatmap(lambda one: anything if one == 0 else question(kind))
    return st.tuples(first, st.lists(then, min_size=1, max_size=4))


def generate_requests():
    """Sound requests with a few fields that hold anything, and requests that are anything."""
    shared = {"max_tokens": 6, "temperature": 1.0, "n": 2, "seed": 3, "logprobs": 1}
    prompts = ({"text": "the stone"}, {"tokens": gateway_pb2.TokenIds(ids=PROMPT)})
    chat = gateway_pb2.Chat(messages=[gateway_pb2.ChatMessage(role="user", content="hi")])
    sound = [gateway_pb2.GenerateRequest(**shared, **prompt) for prompt in (*prompts, {"chat": chat})]
    anything = messages(gateway_pb2.GenerateRequest)
    return st.integers(0, 3).flatmap(lambda one: anything if one == 0 else st.sampled_from(sound).flatmap(mutated))


class Talker:
    """An event loop and a channel for as many cases as there are."""

    def __init__(self, address):
        self.runner = asyncio.Runner()
        self.channel = self.runner.run(self._connect(address))

    async def _connect(self, address):
        return grpc.aio.insecure_channel(address, options=(("grpc.use_local_subchannel_pool", 1),))

    async def talk(self, method, reply_type, requests):
        """Sends them, each once the one before had time to be answered; gives the replies, the status and its words."""
        call = self.channel.stream_stream(
            method, request_serializer=lambda m: m.SerializeToString(), response_deserializer=reply_type.FromString
        )(timeout=ANSWER_S)
        replies, news = [], asyncio.Event()
        reading = asyncio.create_task(self._read(call, replies, news))
        with contextlib.suppress(grpc.RpcError, asyncio.InvalidStateError):
            for request in requests:
                await call.write(request)
                news.clear()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(news.wait(), REPLY_S)
            await call.done_writing()
        await reading
        return replies, await call.code(), await call.details()

    async def _read(self, call, replies, news):
        with contextlib.suppress(grpc.RpcError):
            while (reply := await call.read()) is not grpc.aio.EOF:
                replies.append(reply)
                news.set()
        news.set()

    async def ask(self, method, request, reply_type):
        call = self.channel.unary_unary(
            method, request_serializer=lambda m: m.SerializeToString(), response_deserializer=reply_type.FromString
        )
        return await call(request, timeout=ANSWER_S)

    async def generate(self, request):
        call = self.channel.unary_stream(
            "/forerun.v1.GatewayService/Generate",
            request_serializer=lambda m: m.SerializeToString(),
            response_deserializer=gateway_pb2.GenerateResponse.FromString,
        )(request, timeout=ANSWER_S)
        with contextlib.suppress(grpc.RpcError):
            async for _ in call:
                pass
        return await call.code(), await call.details()

    def close(self):
        self.runner.run(self.channel.close())
        self.runner.close()


@pytest.fixture
def talker(request, tiny_target, tiny_draft, fuzzed):
    """By the parameter's name, to one of the three."""
    talker = Talker({"draft": tiny_draft, "target": tiny_target, "gateway": fuzzed}[request.param].address)
    yield talker
    talker.close()


@pytest.mark.parametrize(("talker", "name"), [("draft", "draft"), ("target", "target")], indirect=["talker"])
def test_streams_of_any_messages_are_answered_or_refused(talker, name):
    method, request_type, reply_type = STREAMS[name]

    @cases(40)
    @given(conversation=conversations(request_type))
    def try_one(conversation):
        first, rest = conversation
        replies, code, details = talker.runner.run(talker.talk(method, reply_type, [first, *rest]))
        count(f"{name} streams", any(reply.WhichOneof("message") in ("proposal", "verdict") for reply in replies))
        assert code not in OURS or details == CLIENTS_OWN, (code, details, conversation)
        codes = [reply.fault.code for reply in replies if reply.HasField("fault")]
        assert not {each.value[0] for each in OURS} & set(codes), (replies[-1], conversation)

    try_one()


@pytest.mark.parametrize("talker", ["gateway"], indirect=True)
def test_any_generate_request_is_answered_or_refused(talker):
    @cases(40)
    @given(request=generate_requests())
    def try_one(request):
        code, details = talker.runner.run(talker.generate(request))
        count("gateway Generate", code is grpc.StatusCode.OK)
        assert code not in OURS, (code, details, request)

    try_one()


@pytest.mark.parametrize(("talker", "service"), [("draft", "Draft"), ("target", "Target")], indirect=["talker"])
@pytest.mark.parametrize(("name", "request_type", "reply_type"), UNARY)
def test_what_is_asked_once_is_answered(talker, service, name, request_type, reply_type):
    @cases(2)
    @given(request=messages(request_type))
    def try_one(request):
        count("unary", True)
        assert talker.runner.run(talker.ask(f"/forerun.v1.{service}Service/{name}", request, reply_type)).ByteSize()

    try_one()
