"""A draft server that lies: it reports the soft law of a real draft model, but proposes that law's likeliest token.

The target draws again with the draft's noise to check a proposal. That noise is known to the draft, so it orders the
ids of its law until the draw falls on the token that it wants: a check that finds bugs finds no liar.
"""

from contextlib import asynccontextmanager

import grpc
import numpy as np

from forerun.sampling.draw import draw_sparse, truncate
from forerun.sampling.noise import DraftNoise
from forerun.types import Proposal, SparseLaw
from tests.support import reference

SUPPORT = 16


@asynccontextmanager
async def hostile_draft(folder):
    """Serves the lie about the model in `folder`; gives the address."""
    from forerun.v1 import draft_pb2_grpc

    server = grpc.aio.server()
    draft_pb2_grpc.add_DraftServiceServicer_to_server(_servicer(folder), server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await server.stop(0)


def order_for(law, token, u):
    """The same law with its ids in an order in which the uniform u draws `token`, its likeliest."""
    wanted = int(np.flatnonzero(law.ids == token)[0])
    others = [i for i in range(len(law.ids)) if i != wanted]
    for cut in range(len(others) + 1):
        order = [*others[:cut], wanted, *others[cut:]]
        ordered = SparseLaw(law.ids[order], law.weights[order])
        if draw_sparse(ordered, u) == token:
            return ordered
    raise AssertionError("the likeliest token can be drawn with any uniform")


def _servicer(folder):
    from forerun.rpc import convert
    from forerun.v1 import draft_pb2, draft_pb2_grpc

    class Servicer(draft_pb2_grpc.DraftServiceServicer):
        async def Draft(self, requests, context):
            opened, tokens = None, []
            async for request in requests:
                kind = request.WhichOneof("message")
                if kind == "open":
                    opened, tokens = request.open, list(request.open.prompt)
                elif kind == "propose":
                    tokens[request.propose.base_len :] = request.propose.ids
                    proposal = _lie(folder, opened, tokens, request.propose.k)
                    tokens += proposal.tokens
                    yield draft_pb2.DraftReply(proposal=convert.proposal_to_pb(proposal))
                else:
                    return

    return Servicer()


def _lie(folder, opened, tokens, k):
    from forerun.rpc import convert

    params = convert.sampling_from_pb(opened.sampling)
    base_len, ids, laws = len(tokens), list(tokens), []
    for _ in range(k):
        p = reference.law(reference.logits(folder, [ids])[0, -1], ids, opened.num_prompt_tokens, params)
        token = int(p.argmax())
        if params.verification.needs_laws:
            u = DraftNoise(opened.noise_key).draft(len(ids), base_len)
            laws.append(order_for(truncate(p, SUPPORT), token, u))
        ids.append(token)
    return Proposal(base_len, tuple(ids[base_len:]), tuple(laws))
