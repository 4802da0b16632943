"""A sequence's line to a draft that answers with what it had drafted ahead."""

import asyncio

import pytest

from forerun.rpc.messages import Ahead, Branch, DraftReply, Proposal, Sampling
from gateway.draft_link import SILENCE_S, DraftLink
from gateway.questions import AheadTerms
from gateway.replicas import Replicas
from gateway.terms import DraftTerms
from gateway.transcript import Transcript
from tests.support.scripted_services import info
from tests.support.virtual_time import run

PROMPT = (3, 1, 4, 1, 5)


class Stream:
    has_unsent = False

    def __init__(self):
        self.posted = []

    def post(self, message):
        self.posted.append(message)

    def end(self, message):
        self.posted.append(message)


class Client:
    name = address = "draft"

    async def info(self, timeout_s=5.0):
        return info("draft")

    def open(self, first, deliver, metadata=()):
        return Stream()


async def no_check(client, info_):
    return None


async def asked_link():
    """A link whose draft was asked to run ahead once, answered, and is now asked for a shadow proposal."""
    replicas = Replicas([Client()], no_check)
    await replicas.probe(replicas.all[0])
    terms = DraftTerms(Sampling(), b"noise", "", needs_laws=False, key=b"key")
    link, transcript = DraftLink(replicas, terms, lambda stream, reply: None), Transcript(PROMPT)
    link.tend(transcript)
    link.receive(DraftReply(proposal=Proposal(base_len=len(PROMPT), tokens=[9])), transcript)
    transcript.commit([2])
    link.ask(transcript, 1, 0.5, 0, AheadTerms(8, 3))
    link.receive(DraftReply(proposal=Proposal(base_len=len(transcript), tokens=[9])), transcript)
    transcript.commit([6])
    link.ask(transcript, 1)
    return replicas, link, transcript


def pushing(hash_, base_len, tokens):
    return DraftReply(ahead=Ahead(branches=[Branch(hash=hash_, proposal=Proposal(base_len=base_len, tokens=tokens))]))


@pytest.mark.parametrize("tokens", [[5], []])
@pytest.mark.parametrize("num_more", [0, 1])
def test_a_branch_that_came_true_closes_its_question_however_far_the_text_is(num_more, tokens):
    async def answered():
        replicas, link, transcript = await asked_link()
        reply = pushing(transcript.hash, len(transcript), tokens)
        transcript.commit([7] * num_more)
        answer = link.receive(reply, transcript)
        assert list(answer.proposal.tokens) == tokens and answer.ahead
        assert not link.is_asked() and link.ready()
        await asyncio.sleep(2 * SILENCE_S)
        assert not link.tend(transcript)
        assert replicas.all[0].healthy

    run(answered())


def test_a_push_for_another_transcript_leaves_the_question_open():
    async def pushed():
        _, link, transcript = await asked_link()
        assert link.receive(pushing(transcript.hash ^ 1, len(transcript), [5]), transcript) is None
        assert link.is_asked()

    run(pushed())


def test_the_draft_is_told_once_that_its_proposal_was_verified_even_where_a_newer_message_replaces_the_first():
    async def told():
        _, link, transcript = await asked_link()
        answer = link.receive(DraftReply(proposal=Proposal(base_len=len(transcript), tokens=[9])), transcript)
        said = []
        for settles, has_unsent in [
            (False, False),
            (True, False),
            (False, False),
            (True, False),
            (False, True),
            (False, False),
        ]:
            if settles:
                link.settle(answer, 0)
            link.stream.has_unsent = has_unsent
            link.ask(transcript, 1)
            said.append(link.stream.posted[-1].propose.judged)
        assert said == [False, True, False, True, True, False]

    run(told())
