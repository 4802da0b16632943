"""Every message of the wire, sane or absurd, to running services: each is answered or refused, and nothing is left."""

import asyncio
import contextlib

import grpc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forerun.transcript_hash import transcript_hash
from forerun.v1 import common_pb2, draft_pb2, gateway_pb2, target_pb2
from tests.support.fuzzing import ANSWER_S, cases, count
from tests.support.proto_strategies import messages

OURS = {grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN, grpc.StatusCode.DEADLINE_EXCEEDED}
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


def opening(kind):
    """An open message that is sound where a service looks first, and anything elsewhere."""

    def repaired(parts):
        request, rule, temperature = parts
        request.open.prompt[:] = PROMPT
        request.open.num_prompt_tokens = min(request.open.num_prompt_tokens, len(PROMPT))
        request.open.sampling.verification, request.open.sampling.temperature = rule, temperature
        request.open.sampling.top_p = 1.0
        if kind is draft_pb2.DraftRequest:
            request.open.noise_key = bytes(16)
        return request

    opened = messages(type(kind().open)).map(lambda message: kind(open=message))
    return st.tuples(opened, st.sampled_from(RULES), st.sampled_from([0.0, 1.0])).map(repaired)


def question(kind):
    """A question whose transcript is right, and whose other fields are anything."""

    def repaired(parts):
        message, base_len, k = parts
        message.base_len, message.hash = base_len, transcript_hash(PROMPT)
        message.ids[:] = PROMPT[base_len:]
        if kind is draft_pb2.DraftRequest:
            message.k = k if message.k > 32 else message.k
            return kind(propose=message)
        message.proposal.base_len = len(PROMPT) if k % 2 else message.proposal.base_len
        return kind(verify=message)

    asked = messages(draft_pb2.Propose if kind is draft_pb2.DraftRequest else target_pb2.Verify)
    return st.tuples(asked, st.integers(0, len(PROMPT)), st.integers(0, 8)).map(repaired)


def conversations(kind):
    """Mostly an open that is served, then questions of both kinds."""
    anything = messages(kind)
    return st.tuples(opening(kind) | opening(kind) | anything, st.lists(question(kind) | anything, max_size=4))


class Talker:
    """An event loop and a channel for as many cases as there are."""

    def __init__(self, address):
        self.runner = asyncio.Runner()
        self.channel = self.runner.run(self._connect(address))

    async def _connect(self, address):
        return grpc.aio.insecure_channel(address, options=(("grpc.use_local_subchannel_pool", 1),))

    async def talk(self, method, reply_type, requests):
        """Sends them, each once the one before had time to be answered; gives the replies and the status."""
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
        return replies, await call.code()

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

    @cases(60)
    @given(conversation=conversations(request_type))
    def try_one(conversation):
        first, rest = conversation
        replies, code = talker.runner.run(talker.talk(method, reply_type, [first, *rest]))
        count(f"{name} streams", any(reply.WhichOneof("message") in ("proposal", "verdict") for reply in replies))
        assert code not in OURS, (code, conversation)
        codes = [reply.fault.code for reply in replies if reply.HasField("fault")]
        assert not {each.value[0] for each in OURS} & set(codes), (replies[-1], conversation)

    try_one()


@pytest.mark.parametrize("talker", ["gateway"], indirect=True)
def test_any_generate_request_is_answered_or_refused(talker):
    @cases(60)
    @given(request=messages(gateway_pb2.GenerateRequest))
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
