"""Targets that are killed or told to stop while they serve: the text is what it would have been."""

import asyncio
import signal
import urllib.request

import grpc
import pytest

from tests.support.generate import gateway_stub, generate, request
from tests.support.processes import TINY, Gateway
from tests.support.wire import clients

PROMPT = [1, 5, 9, 30, 12, 7, 7, 31, 3]
NUM_TOKENS = 300
SOON_S = 5.0  # far below the ten seconds of grace
pytestmark = pytest.mark.timeout(300)  # five processes have to start on what may be a busy machine
COUNTING = {"presence_penalty": 0.6, "frequency_penalty": 0.4, "min_tokens": 200, "ignore_eos": False}
"""What depends on where the prompt ends: penalties see what was generated, EOS comes after 200 tokens or later."""
FIELDS = ({"temperature": 0.0, **COUNTING}, {"seed": 6, **COUNTING})


@pytest.fixture(scope="module")
def own_targets(fleet, tiny_pair, tiny_draft):
    """A gateway before a draft and three targets, two of which the tests do away with."""
    targets = [fleet.start("target_service", "--model", tiny_pair.target, *TINY) for _ in range(3)]
    addresses = ",".join(target.ready().address for target in targets)
    gateway = Gateway(tiny_pair.target, addresses, (tiny_draft.address,)).ready()
    yield gateway, targets
    for process in (gateway, *targets):
        process.kill()
    gateway.close()


async def struck(stub, targets, number):
    """Ids of one answer for each of FIELDS, in whose middle their target gets the signal, and that target."""
    calls = [stub.Generate(request(PROMPT, NUM_TOKENS, k=3, **fields)) for fields in FIELDS]
    texts = [[] for _ in FIELDS]
    reading = [asyncio.create_task(_read(*pair)) for pair in zip(calls, texts, strict=True)]
    while not all(len(ids) > 20 for ids in texts):
        await asyncio.sleep(0.001)
    target = await busiest(targets)
    target.popen.send_signal(number)
    await asyncio.gather(*reading)
    return texts, target


async def _read(call, ids):
    while (piece := await call.read()) is not grpc.aio.EOF:
        ids += piece.token_ids


async def busiest(targets):
    """The target with the most sequences."""
    counts = {}
    for target in targets:
        if target.popen.poll() is None:
            async with clients(target.address) as (client, _):
                info = await client.info()
            counts[target] = info.num_blocks - info.num_free_blocks
    assert max(counts.values()) > 0, "nobody serves a sequence"
    return max(counts, key=counts.get)


def count(gateway, name):
    with urllib.request.urlopen(f"{gateway.url}/metrics", timeout=5) as reply:
        lines = reply.read().decode().splitlines()
    return float(next(line for line in lines if line.startswith(f"{name} ")).split()[1])


async def test_a_target_told_to_stop_hands_its_sequences_over_and_one_that_is_killed_is_replaced(own_targets):
    gateway, targets = own_targets
    async with gateway_stub(gateway.address) as stub:
        expected = [(await generate(stub, PROMPT, NUM_TOKENS, k=0, **fields)).ids for fields in FIELDS]
        texts, target = await struck(stub, targets, signal.SIGTERM)
        assert texts == expected and all(len(ids) > 150 for ids in texts)
        assert await asyncio.to_thread(target.wait, SOON_S) == 0
        assert count(gateway, "forerun_handovers_total") >= 1
        assert count(gateway, "forerun_failovers_total") == 0
        texts, _ = await struck(stub, targets, signal.SIGKILL)
        assert texts == expected
        assert count(gateway, "forerun_failovers_total") >= 1
