"""A draft's proposal against what it was asked."""

import pytest

from forerun.errors import ServiceUnavailable
from forerun.rpc.messages import Proposal
from gateway.questions import NUM_REMEMBERED, Questions


def asked(*base_lens, needs_laws=False, deadline_s=0.5):
    """Questions for 3 tokens after each of base_lens in turn, at times 0, 1, …"""
    questions = Questions(needs_laws)
    for now, base_len in enumerate(base_lens):
        questions.ask(base_len, 0, 3, float(now), deadline_s, span_id=0)
    return questions


def test_the_answer_to_the_open_question_says_how_long_it_took():
    questions = asked(7)
    answer = questions.answered(Proposal(base_len=7, tokens=[1, 2]), 0.25)
    assert (answer.wait_s, answer.asked.k, answer.asked.first) == (0.25, 3, True)
    assert questions.open is None and questions.has_answer
    questions.ask(9, 0, 3, 1.0, 0.5, 0)
    assert not questions.open.first


def test_who_owes_an_answer_is_not_waited_for_again_and_late_only_past_a_deadline():
    questions = asked(7, deadline_s=0.0)
    assert not questions.may_ask()
    questions.answered(Proposal(base_len=7), 0.1)
    assert questions.may_ask()
    questions.ask(8, 0, 3, 1.0, 0.5, 0)
    assert not questions.is_late(1.5)
    assert questions.is_late(1.6) and not questions.may_ask()
    questions.ask(9, 0, 3, 2.0, 0.0, 0)
    assert not questions.may_ask() and not questions.is_late(100.0)
    assert questions.answered(Proposal(base_len=9), 2.1) is not None
    assert questions.may_ask()
    questions.ask(10, 0, 3, 3.0, 0.5, 0)
    questions.forget()
    assert questions.may_ask()


def test_a_late_answer_is_understood_once_and_only_so_many_are_remembered():
    questions = asked(*range(10, 10 + NUM_REMEMBERED + 2))
    assert questions.answered(Proposal(base_len=11), 9.0) is None
    for base_len in (11, 10, 99):
        with pytest.raises(ServiceUnavailable, match=f"after {base_len} tokens, which nobody asked for"):
            questions.answered(Proposal(base_len=base_len), 9.0)
    assert questions.answered(Proposal(base_len=10 + NUM_REMEMBERED + 1), 9.0) is not None


@pytest.mark.parametrize(
    ("proposal", "complaint"),
    [
        (Proposal(base_len=7, tokens=[1, 2, 3, 4]), "4 tokens, 3 were asked for"),
        (Proposal(base_len=7, tokens=[1], support_lens=[2], support_ids=[1], weights=[1]), "malformed laws"),
        (Proposal(base_len=7, tokens=[1]), "without the laws"),
    ],
)
def test_what_is_no_proposal_leaves_the_question_open(proposal, complaint):
    questions = asked(7, needs_laws=True)
    with pytest.raises(ServiceUnavailable, match=complaint):
        questions.answered(proposal, 1.0)
    assert questions.open is not None and not questions.has_answer
