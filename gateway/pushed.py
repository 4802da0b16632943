"""Proposals that a draft pushed ahead of the verdict: kept by the transcript that they follow, and never trusted."""

from forerun.errors import ServiceUnavailable
from forerun.rpc.messages import Ahead, Proposal
from gateway.generation import MAX_NUM_DRAFT_TOKENS
from gateway.questions import check

MAX_KEPT = 64  # of one sequence, whatever was asked for


class Pushed:
    """What lies ready for the outcomes of the present round. A draft owes nothing and may not push more than was asked.

    A wrong hash is one that never comes up, or brings a proposal that is verified like any other.
    """

    def __init__(self, needs_laws: bool) -> None:
        self._needs_laws = needs_laws
        self._kept: dict[int, Proposal] = {}
        self._num_allowed, self._runs_ahead = 0, False

    def asked_for(self, num_branches: int, num_answers: int = 0) -> None:
        """A new round begins: what was ready for the last one is of no use any more.

        Once a draft was asked to run ahead, its answer to a question may come as a push as well.
        """
        self._kept.clear()
        self._runs_ahead |= num_branches > 0
        self._num_allowed += num_branches + (num_answers if self._runs_ahead else 0)

    def keep(self, ahead: Ahead) -> None:
        """Takes what was pushed.

        Raises ServiceUnavailable where nobody asked for so much, or for what is no proposal.
        """
        self._num_allowed -= max(len(ahead.branches), 1)
        if self._num_allowed < 0:
            raise ServiceUnavailable("the draft pushed more proposals than it was asked for")
        for branch in ahead.branches:
            check(branch.proposal, MAX_NUM_DRAFT_TOKENS, self._needs_laws)
            kept = self._kept.get(branch.hash)
            if (kept is None and len(self._kept) < MAX_KEPT) or (kept is not None and not kept.tokens):
                self._kept[branch.hash] = branch.proposal

    def take(self, hash_: int, base_len: int) -> Proposal | None:
        """The proposal for the transcript of this hash and length, where there is one."""
        proposal = self._kept.get(hash_)
        return proposal if proposal is not None and proposal.base_len == base_len else None


def shortened(proposal: Proposal, num_tokens: int) -> Proposal:
    """The first num_tokens of it."""
    if len(proposal.tokens) <= num_tokens:
        return proposal
    support_lens = proposal.support_lens[:num_tokens]
    num_ids = sum(support_lens)
    return Proposal(
        base_len=proposal.base_len,
        tokens=proposal.tokens[:num_tokens],
        support_lens=support_lens,
        support_ids=proposal.support_ids[:num_ids],
        weights=proposal.weights[:num_ids],
        draft_s=proposal.draft_s,
    )
