"""The soak's clients: each asks, reads or leaves, and compares."""

import asyncio
import collections
import random

import grpc

from tests.support.generate import request

ANSWER_S = 60.0
LEAVES = 0.25  # of the requests, somewhere in the middle


async def client(stub, kinds, seed, tally):
    """Asks until it is cancelled. tally counts finished, left, lost, changed and late."""
    rng = random.Random(seed)
    while True:
        kind = rng.choice(kinds)
        leaves_after = rng.randrange(kind.num_tokens) if rng.random() < LEAVES else None
        tally[await _ask(stub, kind, leaves_after, rng.choice((None, None, 0, 2, 5)), tally)] += 1


async def _ask(stub, kind, leaves_after, k, tally):
    call, ids = stub.Generate(request(kind.prompt, kind.num_tokens, k, **kind.fields)), []
    try:
        async with asyncio.timeout(ANSWER_S):
            while (piece := await call.read()) is not grpc.aio.EOF:
                ids += piece.token_ids
                if leaves_after is not None and len(ids) > leaves_after:
                    return "left"
            if await call.code() is not grpc.StatusCode.OK:
                raise grpc.aio.AioRpcError(await call.code(), None, None, await call.details())
    except TimeoutError:
        return "late"
    except grpc.aio.AioRpcError as error:
        tally.errors[f"{error.code().name}: {error.details()}"[:160]] += 1
        return "lost"
    finally:
        call.cancel()
    return "finished" if ids == kind.ids else "changed"


class Tally(collections.Counter):
    """Outcomes, and what the lost ones were told."""

    def __init__(self):
        super().__init__()
        self.errors = collections.Counter()
