"""What a draft was asked on one stream, and whether what it says answers it."""

from dataclasses import dataclass

from forerun.errors import InvalidRequest, ServiceUnavailable
from forerun.rpc.convert import check_laws
from forerun.rpc.messages import Proposal

NUM_REMEMBERED = 8  # abandoned questions whose late answers are still understood


@dataclass(frozen=True, slots=True)
class Asked:
    """A question on its way; `first` is the one that a stream starts with, to learn when the prefill is done."""

    base_len: int
    k: int
    at: float
    deadline_s: float
    span_id: int
    first: bool


@dataclass(frozen=True, slots=True)
class Answer:
    """A proposal and what it took."""

    proposal: Proposal
    asked: Asked
    wait_s: float


class Questions:
    """At most one is open; a few that were abandoned for a newer one are remembered."""

    def __init__(self, needs_laws: bool) -> None:
        self._needs_laws = needs_laws
        self._abandoned: dict[int, Asked] = {}
        self.open: Asked | None = None
        self.has_answer = False

    def may_ask(self, now: float) -> bool:
        """Whether the first was answered, and none is open whose deadline, if it has one, is still to come."""
        asked = self.open
        return self.has_answer and (asked is None or (asked.deadline_s > 0 and now > asked.at + asked.deadline_s))

    def ask(self, base_len: int, k: int, now: float, deadline_s: float, span_id: int) -> None:
        """Opens a question; an open one is abandoned."""
        if self.open is not None:
            self._abandon(self.open)
        self.open = Asked(base_len, k, now, deadline_s, span_id, first=not self.has_answer)

    def forget(self) -> None:
        """The open question was overtaken and will not be answered."""
        self.open = None

    def answered(self, proposal: Proposal, now: float) -> Answer | None:
        """Returns the answer to the open question, None for one that was abandoned.

        Raises ServiceUnavailable for a proposal that nobody asked for or that is none.
        """
        asked = self.open
        if asked is None or proposal.base_len != asked.base_len:
            if self._abandoned.pop(proposal.base_len, None) is None:
                raise ServiceUnavailable(f"the draft proposed after {proposal.base_len} tokens, which nobody asked for")
            return None
        self._check(proposal, asked)
        self.open, self.has_answer = None, True
        return Answer(proposal, asked, now - asked.at)

    def _check(self, proposal: Proposal, asked: Asked) -> None:
        if len(proposal.tokens) > asked.k:
            raise ServiceUnavailable(f"the draft proposed {len(proposal.tokens)} tokens, {asked.k} were asked for")
        try:
            check_laws(proposal)
        except InvalidRequest as error:
            raise ServiceUnavailable(f"the draft sent malformed laws: {error}") from error
        if self._needs_laws and len(proposal.support_lens) != len(proposal.tokens):
            raise ServiceUnavailable("the draft proposed tokens without the laws that they were drawn from")

    def _abandon(self, asked: Asked) -> None:
        self._abandoned[asked.base_len] = asked
        while len(self._abandoned) > NUM_REMEMBERED:
            del self._abandoned[next(iter(self._abandoned))]
