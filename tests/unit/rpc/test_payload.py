"""What a drafted token and a round weigh on the wire."""

import numpy as np

from forerun.rpc import convert
from forerun.rpc.messages import (
    Ahead,
    Branch,
    DraftReply,
    DraftRequest,
    Propose,
    TargetReply,
    TargetRequest,
    Verdict,
    Verify,
)
from forerun.sampling.draw import truncate
from forerun.types import Proposal

K, S = 8, 16
LARGE_ID = 49151  # of 49k ids nearly all take three bytes
BASE_LEN, HASH, SPAN = 4000, 2**32 - 1, 2**64 - 1
TOKEN_LIMIT = {"rejection": 100, "match": 8}
ROUND_LIMIT = 120


def proposal(num_tokens, rule):
    """Ids from the top of the vocabulary, and the law that weighs most: the flat one."""
    laws = ()
    if rule == "rejection":
        flat = truncate(np.full(S, 1 / S), S, np.arange(LARGE_ID - S, LARGE_ID))
        laws = (flat,) * num_tokens
    return convert.proposal_to_pb(Proposal(BASE_LEN, (LARGE_ID,) * num_tokens, laws, 0.0123))


def hops(num_tokens, rule):
    """Bytes of a traced round's messages, on the draft's hop and on the target's."""
    propose = Propose(
        base_len=BASE_LEN, ids=[LARGE_ID], hash=HASH, k=num_tokens, deadline_s=0.05, span_id=SPAN, num_branches=16,
        ahead_k=8,
    )  # fmt: skip
    verify = Verify(base_len=BASE_LEN, hash=HASH, proposal=proposal(num_tokens, rule), span_id=SPAN)
    verdict = Verdict(base_len=BASE_LEN, num_accepted=num_tokens, token=LARGE_ID, step_s=0.0123, num_rows=640)
    draft = DraftRequest(propose=propose).ByteSize() + DraftReply(proposal=proposal(num_tokens, rule)).ByteSize()
    return draft, TargetRequest(verify=verify).ByteSize() + TargetReply(verdict=verdict).ByteSize()


def test_a_drafted_token_weighs_at_most_100_bytes_a_hop_under_rejection_and_8_under_match():
    for rule, limit in TOKEN_LIMIT.items():
        none, all_of_them = hops(0, rule), hops(K, rule)
        for before, after in zip(none, all_of_them, strict=True):
            assert (after - before) / K <= limit, rule


def test_a_round_weighs_at_most_120_bytes_besides():
    """Untraced and traced, both hops together."""
    assert sum(hops(0, "match")) <= ROUND_LIMIT
    assert sum(hops(0, "rejection")) <= ROUND_LIMIT


def test_a_proposal_that_is_pushed_ahead_weighs_at_most_12_bytes_more_than_one_that_was_asked_for():
    branches = [Branch(hash=HASH, proposal=proposal(K, "rejection"))] * 16
    pushed = DraftReply(ahead=Ahead(branches=branches)).ByteSize()
    assert pushed <= 16 * (proposal(K, "rejection").ByteSize() + 12)
