"""What a draft pushed, kept by the transcript that it follows."""

import pytest

from forerun.errors import ServiceUnavailable
from forerun.rpc.messages import Ahead, Branch, Proposal
from gateway.pushed import MAX_KEPT, Pushed, shortened

LAWS = {"support_lens": [1, 2], "support_ids": [3, 4, 5], "weights": [9, 1, 2]}


def pushed(*branches, needs_laws=False, num_branches=8):
    box = Pushed(needs_laws)
    box.asked_for(num_branches)
    for hash_, proposal in branches:
        box.keep(Ahead(branches=[Branch(hash=hash_, proposal=proposal)]))
    return box


def test_a_proposal_is_found_by_the_hash_and_length_of_its_transcript():
    box = pushed((7, Proposal(base_len=5, tokens=[1, 2])), (8, Proposal(base_len=6, tokens=[3])))
    assert list(box.take(7, 5).tokens) == [1, 2]
    assert box.take(7, 6) is None and box.take(9, 5) is None


def test_the_first_with_a_hash_stays_unless_there_is_no_token_in_it():
    one, other, empty = (Proposal(base_len=5, tokens=tokens) for tokens in ([1], [2], []))
    box = pushed((7, empty), (7, one), (7, other), (7, empty), (8, empty))
    assert list(box.take(7, 5).tokens) == [1]
    assert list(box.take(8, 5).tokens) == []


def test_a_new_round_forgets_what_was_ready_for_the_last_one():
    box = pushed((7, Proposal(base_len=5, tokens=[1])))
    box.asked_for(1)
    assert box.take(7, 5) is None


def test_what_is_late_is_no_fault_but_more_than_was_asked_for_is():
    box = pushed(num_branches=2)
    box.asked_for(2)
    for hash_ in range(4):
        box.keep(Ahead(branches=[Branch(hash=hash_, proposal=Proposal(base_len=5, tokens=[1]))]))
    with pytest.raises(ServiceUnavailable, match="more proposals than it was asked for"):
        box.keep(Ahead(branches=[Branch(hash=9, proposal=Proposal(base_len=5, tokens=[1]))]))


def test_an_answer_may_be_pushed_once_a_draft_was_asked_to_run_ahead_and_not_before():
    box = Pushed(False)
    box.asked_for(0, num_answers=1)
    with pytest.raises(ServiceUnavailable):
        box.keep(Ahead(branches=[Branch()]))
    box = pushed(num_branches=1)
    box.asked_for(0, num_answers=1)
    for hash_ in range(2):
        box.keep(Ahead(branches=[Branch(hash=hash_, proposal=Proposal(base_len=5, tokens=[1]))]))


def test_only_so_many_are_kept():
    box = pushed(*[(i, Proposal(base_len=5, tokens=[1])) for i in range(MAX_KEPT + 1)], num_branches=1000)
    assert box.take(MAX_KEPT - 1, 5) is not None and box.take(MAX_KEPT, 5) is None


@pytest.mark.parametrize(
    "proposal",
    [
        Proposal(base_len=5, tokens=[1]),
        Proposal(base_len=5, tokens=[1, 2], support_lens=[2], support_ids=[1, 2], weights=[1, 1]),
        Proposal(base_len=5, tokens=[1] * 33),
    ],
)
def test_what_is_no_proposal_is_refused(proposal):
    with pytest.raises(ServiceUnavailable):
        pushed((7, proposal), needs_laws=True)


def test_a_shortened_proposal_keeps_the_laws_of_its_tokens():
    proposal = Proposal(base_len=5, tokens=[3, 4], **LAWS)
    assert shortened(proposal, 2) is proposal
    first = shortened(proposal, 1)
    assert (list(first.tokens), list(first.support_lens)) == ([3], [1])
    assert (list(first.support_ids), list(first.weights)) == ([3], [9])
