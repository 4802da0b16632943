"""A client of the gateway's gRPC Generate that gathers what it streams."""

from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import grpc

from forerun.v1 import gateway_pb2, gateway_pb2_grpc


@dataclass
class Choice:
    """One choice, as streamed."""

    ids: list = field(default_factory=list)
    text: str = ""
    logprobs: list = field(default_factory=list)
    finish_reason: str = ""


@dataclass
class Answer:
    """A whole answer."""

    choices: dict = field(default_factory=dict)
    usage: object = None
    speculative: object = None

    @property
    def ids(self):
        return self.choices[0].ids


@asynccontextmanager
async def gateway_stub(address):
    """A stub on a channel of its own."""
    async with grpc.aio.insecure_channel(address, options=(("grpc.use_local_subchannel_pool", 1),)) as channel:
        yield gateway_pb2_grpc.GatewayServiceStub(channel)


def request(prompt, num_tokens, k=None, rule=None, **fields):
    """A GenerateRequest for token ids that ends at num_tokens alone; k None leaves K to the server, 0 is no draft."""
    speculative = {} if k is None else {"enabled": k > 0, **({"num_draft_tokens": k} if k else {})}
    if rule is not None:
        speculative["verification"] = rule
    return gateway_pb2.GenerateRequest(
        tokens=gateway_pb2.TokenIds(ids=prompt),
        max_tokens=num_tokens,
        speculative=gateway_pb2.Speculative(**speculative),
        **{"ignore_eos": True, **fields},
    )


async def generate(stub, prompt, num_tokens, k=None, rule=None, **fields):
    """The whole answer to `request`."""
    answer = Answer()
    async for piece in stub.Generate(request(prompt, num_tokens, k, rule, **fields), timeout=60):
        if piece.HasField("usage"):
            answer.usage, answer.speculative = piece.usage, piece.speculative
            continue
        choice = answer.choices.setdefault(piece.index, Choice())
        choice.ids += piece.token_ids
        choice.text += piece.text
        choice.logprobs += piece.logprobs
        choice.finish_reason = piece.finish_reason or choice.finish_reason
    return answer
