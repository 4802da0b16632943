"""A real draft at the end of a slow network: K falls to 0, and the text is the same."""

import asyncio
from contextlib import asynccontextmanager

from benchmarks.relay import relay
from tests.support.generate import gateway_stub, generate
from tests.support.processes import Gateway

PROMPT = [1, 5, 9, 30, 12, 7, 7, 31, 3]
DELAY_S = 0.1  # one way: no K earns a round trip that takes as long as tens of tokens
NUM_TOKENS = 400
NUM_TRIALS = 12  # as in virtual time, tests/unit/gateway/test_adaptive_k.py
FIELDS = ({"temperature": 0.0}, {"seed": 6, "top_p": 0.9})


@asynccontextmanager
async def gateway_over(delay_s, pair, target, draft):
    """A stub of a gateway whose draft is `delay_s` away, and which does not draft by itself."""
    async with relay(draft.address, delay_s) as address:
        gateway = Gateway(pair.target, target.address, (address,), "--own-drafter", "off")
        try:
            await asyncio.to_thread(gateway.ready)
            async with gateway_stub(gateway.address) as stub:
                yield stub
        finally:
            gateway.kill()
            gateway.close()


async def test_a_draft_behind_a_slow_network_is_tried_and_left_alone(tiny_pair, tiny_target, tiny_draft):
    """Case 32: by the number of rounds, for speed itself is measured in virtual time and by the benchmarks."""
    async with gateway_over(DELAY_S, tiny_pair, tiny_target, tiny_draft) as stub:
        for fields in FIELDS:
            plain = await generate(stub, PROMPT, NUM_TOKENS, k=0, **fields)
            answer = await generate(stub, PROMPT, NUM_TOKENS, **fields)
            assert answer.ids == plain.ids
            assert answer.speculative.num_drafts <= NUM_TRIALS


async def test_the_same_draft_over_the_same_relay_without_delay_is_used(tiny_pair, tiny_target, tiny_draft):
    """What the test above sees is the delay, not the relay."""
    async with gateway_over(0.0, tiny_pair, tiny_target, tiny_draft) as stub:
        for fields in FIELDS:
            plain = await generate(stub, PROMPT, NUM_TOKENS, k=0, **fields)
            answer = await generate(stub, PROMPT, NUM_TOKENS, k=4, **fields)
            assert answer.ids == plain.ids
            assert answer.speculative.num_drafts > 2 * NUM_TRIALS
