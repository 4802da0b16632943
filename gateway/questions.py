"""What a draft was asked on one stream, and whether what it says answers it."""

from dataclasses import dataclass

from forerun.errors import InvalidRequest, ServiceUnavailable
from forerun.rpc.convert import check_laws
from forerun.rpc.messages import Proposal

NUM_REMEMBERED = 8  # abandoned questions whose late answers are still understood


@dataclass(frozen=True, slots=True)
class AheadTerms:
    """How many outcomes of a verification are drafted for before it is over, and how far each at most."""

    num_branches: int = 0
    k: int = 0


NOT_AHEAD = AheadTerms()
NEVER = -1.0


@dataclass(frozen=True, slots=True)
class Asked:
    """A question on its way, and the length and hash of the transcript that it is about.

    `first` is the one that a stream starts with, to learn when the prefill is done. Below `min_survival` the proposal
    may end before k.
    """

    base_len: int
    hash: int
    k: int
    at: float
    deadline_s: float
    span_id: int
    first: bool
    ahead: AheadTerms = NOT_AHEAD
    min_survival: float = 0.0


@dataclass(frozen=True, slots=True)
class Answer:
    """A proposal and what it took; `ahead` says that it was drafted before it was asked for: its times say nothing."""

    proposal: Proposal
    asked: Asked
    wait_s: float
    ahead: bool = False

    @property
    def was_ready(self) -> bool:
        """Whether it came before anybody asked."""
        return self.ahead and self.asked.at == NEVER


class Questions:
    """At most one is open; a few that were abandoned for a newer one are remembered."""

    def __init__(self, needs_laws: bool) -> None:
        self._needs_laws = needs_laws
        self._abandoned: dict[int, Asked] = {}
        self.open: Asked | None = None
        self.has_answer = False

    def may_ask(self) -> bool:
        """Whether the first was answered and none is open: who owes an answer is not waited for again."""
        return self.has_answer and self.open is None

    def is_late(self, now: float) -> bool:
        """Whether the open question was waited for in vain."""
        asked = self.open
        return asked is not None and asked.deadline_s > 0 and now > asked.at + asked.deadline_s

    def ask(
        self, base_len: int, hash_: int, k: int, now: float, deadline_s: float, span_id: int,
        ahead: AheadTerms = NOT_AHEAD, min_survival: float = 0.0,
    ) -> None:  # fmt: skip
        """Opens a question; an open one is abandoned."""
        if self.open is not None:
            self._abandon(self.open)
        self.open = Asked(base_len, hash_, k, now, deadline_s, span_id, not self.has_answer, ahead, min_survival)

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
        check(proposal, asked.k, self._needs_laws)
        self.open, self.has_answer = None, True
        return Answer(proposal, asked, now - asked.at)

    def answered_ahead(self, proposal: Proposal, asked: Asked, now: float) -> Answer:
        """The answer to the open question was under way before it was asked; another may follow."""
        self._abandon(asked)
        self.open, self.has_answer = None, True
        return Answer(proposal, asked, now - asked.at, ahead=True)

    def _abandon(self, asked: Asked) -> None:
        self._abandoned[asked.base_len] = asked
        while len(self._abandoned) > NUM_REMEMBERED:
            del self._abandoned[next(iter(self._abandoned))]


def check(proposal: Proposal, k: int, needs_laws: bool) -> None:
    """Raises ServiceUnavailable for what is no proposal of at most k tokens, with their laws where those are needed."""
    if len(proposal.tokens) > k:
        raise ServiceUnavailable(f"the draft proposed {len(proposal.tokens)} tokens, {k} were asked for")
    try:
        check_laws(proposal)
    except InvalidRequest as error:
        raise ServiceUnavailable(f"the draft sent malformed laws: {error}") from error
    if needs_laws and len(proposal.support_lens) != len(proposal.tokens):
        raise ServiceUnavailable("the draft proposed tokens without the laws that they were drawn from")
