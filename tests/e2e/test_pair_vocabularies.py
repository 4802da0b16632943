"""Pairs whose vocabularies differ: in padding alone they work, in meaning they are refused at start."""

import pytest

from tests.support import reference, tiny
from tests.support.generate import gateway_stub, generate
from tests.support.processes import TINY, Gateway
from tests.support.wire import GREEDY

PROMPT = [1, 5, 9, 30, 12]
NUM_TOKENS = 60


@pytest.fixture(scope="session")
def padded_gateway(fleet, tiny_padded_pair):
    """8 padding rows in the target's head, 3 in the draft's, all with the largest logits."""
    target = fleet.target(tiny_padded_pair.target)
    draft = fleet.draft(tiny_padded_pair.draft, tiny_padded_pair.target)
    return fleet.gateway(tiny_padded_pair.target, target.address, (draft.address,))


async def test_padding_changes_no_greedy_text_and_is_never_emitted(padded_gateway, tiny_pair):
    """Cases 1 and 3: the weights are those of the pair without padding; the draft's logits are the narrower ones."""
    expected = reference.greedy(tiny_pair.target, PROMPT, NUM_TOKENS, GREEDY)
    async with gateway_stub(padded_gateway.address) as stub:
        for k in (0, 1, 4, 8):
            answer = await generate(stub, PROMPT, NUM_TOKENS, k=k, temperature=0.0)
            assert answer.ids == expected, f"K = {k}"
            assert k == 0 or answer.speculative.num_accepted_tokens > 0, f"K = {k}"
        for seed in range(8):
            answer = await generate(stub, PROMPT, 100, k=4, rule="rejection", seed=seed, temperature=2.0)
            assert max(answer.ids) < 64
            assert answer.speculative.num_accepted_tokens > 0


async def test_padding_never_appears_among_logprobs(padded_gateway, tiny_pair):
    """Case 1: neither as a token nor in the normaliser."""
    async with gateway_stub(padded_gateway.address) as stub:
        answer = await generate(stub, PROMPT, 10, k=3, temperature=0.0, logprobs=5)
    rows = reference.log_softmax(tiny_pair.target, PROMPT, answer.ids)
    for entry, token, row in zip(answer.choices[0].logprobs, answer.ids, rows, strict=True):
        assert abs(entry.logprob - row[token]) < 1e-3


async def test_the_padded_text_of_a_seed_is_that_of_the_plain_pair(padded_gateway, fleet, tiny_pair, tiny_target):
    """Case 1, sampled: the noise belongs to token ids, not to rows of a head."""
    plain = fleet.gateway(tiny_pair.target, tiny_target.address)
    async with gateway_stub(padded_gateway.address) as padded, gateway_stub(plain.address) as unpadded:
        expected = await generate(unpadded, PROMPT, NUM_TOKENS, seed=5)
        assert (await generate(padded, PROMPT, NUM_TOKENS, k=4, seed=5)).ids == expected.ids


def test_a_gateway_refuses_a_draft_of_another_vocabulary_and_names_the_first_difference(
    fleet, tiny_mismatched_pair, tiny_target, tiny_pair
):
    """Case 2: ids of "a" and "b" are swapped."""
    draft = fleet.draft(tiny_mismatched_pair.draft, tiny_mismatched_pair.target)
    gateway = Gateway(tiny_pair.target, tiny_target.address, (draft.address,))
    try:
        assert gateway.wait(60) == 2
        assert "'a'" in gateway.log() and "'b'" in gateway.log() and "3" in gateway.log()
        assert "Traceback" not in gateway.log()
    finally:
        gateway.kill()
        gateway.close()


def test_a_gateway_refuses_a_target_that_is_not_its_models(fleet, tiny_mismatched_pair, tiny_target):
    """Case 2: the gateway's own tokenizer is the other one."""
    gateway = Gateway(tiny_mismatched_pair.draft, tiny_target.address, ())
    try:
        assert gateway.wait(60) == 2
        assert "vocabulary" in gateway.log()
        assert "Traceback" not in gateway.log()
    finally:
        gateway.kill()
        gateway.close()


def test_a_head_narrower_than_its_tokenizer_is_refused_at_start(fleet, tiny_pair, tmp_path):
    """Case 3: 60 rows for 64 ids, in the target and in the draft."""
    narrow = tmp_path / "narrow"
    tiny.save(tiny.build_model(0, 60, 64), tiny.build_tokenizer(tiny.pieces(64)), narrow)
    for module in ("target_service", "draft_service"):
        service = fleet.start(module, "--model", narrow, *TINY)
        assert service.wait(30) == 2, module
        assert "60 rows" in service.log()
        assert "Traceback" not in service.log()
