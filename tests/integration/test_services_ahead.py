"""A real draft ahead of the verdict: what it pushes is what it would answer, and never in anyone's way."""

import numpy as np
import pytest

from forerun.rpc.messages import Ahead, Proposal
from forerun.transcript_hash import transcript_hash
from forerun.types import SamplingParams, Verification
from tests.support.ahead import drafted_ahead
from tests.support.wire import GREEDY, SAMPLED, SEEDED, DraftLine, alone, clients

PROMPT = [1, 5, 9, 30, 12, 7, 7, 31, 3]
VOCAB_SIZE = 64
BLOCK = SamplingParams(temperature=0.8, top_p=0.9, verification=Verification.BLOCK)
PARAMS = {"greedy": GREEDY, "coupled": SEEDED, "rejection": SAMPLED, "block": BLOCK}


def outcomes(transcript, tokens):
    """The transcript after every possible verdict on `tokens`, by its hash."""
    found = [[*transcript, *tokens[:i], y] for i in range(len(tokens) + 1) for y in range(VOCAB_SIZE)]
    return {transcript_hash(ids): ids for ids in found}


async def pushed(line, num_branches, transcript, tokens):
    """(transcript, proposal) of each branch that comes after the proposal of these tokens, until all are there."""
    branches = []
    while len(branches) < num_branches:
        branches += (await line.expect(Ahead)).branches
    by_hash = outcomes(transcript, tokens)
    return [(by_hash[branch.hash], branch.proposal) for branch in branches]


def content(proposal):
    return list(proposal.tokens), list(proposal.support_lens), list(proposal.support_ids)


def weights(proposal):
    return np.array(proposal.weights, dtype=np.int64)


@pytest.mark.parametrize("length", [9, 14, 15, 16, 17, 30])
@pytest.mark.parametrize("name", PARAMS)
async def test_a_branch_is_what_the_draft_would_answer_for_that_transcript(ahead_draft, name, length):
    """At every place of a block's border. A step over other rows may round a weight of 2^14 the other way."""
    prompt = (PROMPT * 4)[:length]
    async with clients(ahead_draft.address, ahead_draft.address) as (_, draft):
        line = DraftLine(draft, prompt, PARAMS[name], seed=3)
        line.ask(prompt, 3, num_branches=8, ahead_k=4)
        tokens = list((await line.expect(Proposal)).tokens)
        branches = await pushed(line, 8, prompt, tokens)
        assert len({tuple(ids) for ids, _ in branches}) == 8
        for ids, proposal in branches:
            fresh = DraftLine(draft, prompt, PARAMS[name], seed=3)
            assert proposal.base_len == len(ids)
            answer = await fresh.propose(ids, 4, len(prompt))
            assert content(answer) == content(proposal)
            assert np.abs(weights(answer) - weights(proposal)).max(initial=0) <= 1
            await fresh.finish()
        await line.finish()


async def test_a_branch_without_a_token_to_tell_is_answered_like_any_question(fleet, tiny_pair):
    own = fleet.draft(tiny_pair.draft, tiny_pair.target, "--max-sequences", 62)  # who asks so early makes it hurry
    async with clients(own.address, own.address) as (_, draft):
        line = DraftLine(draft, PROMPT, GREEDY)
        line.ask(PROMPT, 3, num_branches=8, ahead_k=4)
        tokens = list((await line.expect(Proposal)).tokens)
        ids, _ = (await pushed(line, 8, PROMPT, tokens))[0]
        line.ask(ids, 0, len(PROMPT))
        answer = await line.expect(Proposal)
        assert (answer.base_len, list(answer.tokens)) == (len(ids), [])
        await line.finish()


@pytest.mark.parametrize("name", PARAMS)
async def test_proposals_that_were_drafted_ahead_are_verified_and_the_text_is_the_same(tiny_target, ahead_draft, name):
    """Under match that of plain decoding; under the other rules a valid one, whose law is tested elsewhere."""
    async with clients(tiny_target.address, ahead_draft.address) as (target, draft):
        run, line = await drafted_ahead(target, draft, PROMPT, 60, PARAMS[name], seed=4)
        assert line.num_hits > 3
        assert all(verdict.refused == "" for _, verdict in run.rounds)
        if not PARAMS[name].verification.needs_laws:
            assert run.ids == (await alone(target, PROMPT, 60, PARAMS[name], seed=4)).ids
