"""A sequence's line to its draft: opened, asked, abandoned and opened again, and never trusted."""

from collections.abc import Callable

from forerun.errors import ForerunError, ServiceUnavailable
from forerun.rpc.clients import DraftClient, DraftStream
from forerun.rpc.messages import Abort, DraftReply, DraftRequest, Finish, Propose
from gateway.clock import running_clock
from gateway.pushed import Pushed, shortened
from gateway.questions import NEVER, NOT_AHEAD, AheadTerms, Answer, Asked, Questions
from gateway.replica import Replica
from gateway.replicas import Replicas
from gateway.terms import DraftTerms
from gateway.transcript import Transcript

SILENCE_S = 3.0  # a draft that owes an answer says every second that it works on it; silent for longer it hangs
FIRST_BACKOFF_S, MAX_BACKOFF_S = 0.1, 10.0
NUM_TRUSTED = 4  # verified proposals after which a stream's next failure counts as its first
NO_LIMIT = 1 << 30
DRAFTS_SHARE = 0.8  # of a deadline: a draft that stops then is heard in time

Deliver = Callable[[DraftStream, DraftReply | ForerunError], None]


class DraftLink:
    """`ready` says whether a proposal may be asked for.

    `_held` is the length up to which the draft is known to hold the transcript; it answers Held if it does not.
    `_sent_from` is where the ids of the last message begin, which a newer message may replace before it is sent.
    `_judged` says that the draft's last proposal was verified, which it is yet to be told, `_said_judged` that the last
    message tells it.
    """

    def __init__(self, replicas: Replicas[DraftClient], terms: DraftTerms, deliver: Deliver) -> None:
        self._replicas, self._terms, self._deliver = replicas, terms, deliver
        self._now = running_clock()
        self.replica: Replica[DraftClient] | None = None
        self.stream: DraftStream | None = None
        self._questions, self._pushed = Questions(terms.needs_laws), Pushed(terms.needs_laws)
        self._held, self._sent_from, self._heard_at, self._num_settled = 0, 0, 0.0, 0
        self._ahead_k, self._judged, self._said_judged = 0, False, False
        self._backoff_s, self._retry_at = FIRST_BACKOFF_S, 0.0
        self._must_leave = False

    def ready(self) -> bool:
        """Whether a proposal may be asked for now."""
        return self.stream is not None and not self._must_leave and self._questions.may_ask()

    def is_asked(self) -> bool:
        """Whether a question is open, even one past its deadline."""
        return self._questions.open is not None

    def is_late(self) -> bool:
        """Whether it owes an answer that was waited for; it has to give one before it is waited for again."""
        return self.stream is not None and not self._must_leave and self._questions.is_late(self._now())

    def num_behind(self, transcript: Transcript) -> int:
        """Committed tokens that the draft has yet to be told."""
        return len(transcript) - self._held

    def room(self, transcript: Transcript) -> int:
        """Tokens that the draft's own context leaves for a proposal."""
        return _room(self.replica, transcript)

    def tend(self, transcript: Transcript) -> bool:
        """Opens the stream where there is none and it is time to; True where it fell silent, and is out for all.

        One whose draft drains is left for another when no question is open.
        """
        now, asked = self._now(), self._questions.open
        if self._must_leave and asked is None:
            self.finish()
            self._retry_at = now
        if self.stream is None and now >= self._retry_at:
            self._open(transcript)
        elif asked is not None and now - max(asked.at, self._heard_at) > SILENCE_S:
            self.lost(ServiceUnavailable(f"it said nothing for {SILENCE_S:g} s"))
            return True
        return False

    def ask(
        self, transcript: Transcript, k: int, deadline_s: float = 0.0, span_id: int = 0,
        ahead: AheadTerms = NOT_AHEAD, min_survival: float = 0.0,
    ) -> None:  # fmt: skip
        """Asks for k tokens after the transcript, and what is to be drafted ahead of their verdict.

        An unanswered question before it is abandoned.
        """
        self._questions.ask(len(transcript), transcript.hash, k, self._now(), deadline_s, span_id, ahead, min_survival)
        self._pushed.asked_for(ahead.num_branches, num_answers=1)
        self._post(transcript, self._held)

    def ready_made(self, transcript: Transcript, limit: int) -> Answer | None:
        """What the draft pushed for this very transcript, at most `limit` tokens of it."""
        proposal = self._pushed.take(transcript.hash, len(transcript))
        if proposal is None or not proposal.tokens or limit <= 0:
            return None
        kept = shortened(proposal, limit)
        k = max(min(self._ahead_k, limit), len(kept.tokens))
        asked = Asked(len(transcript), transcript.hash, k, NEVER, 0.0, 0, first=False)
        return Answer(kept, asked, 0.0, ahead=True)

    def go_ahead(
        self, transcript: Transcript, k: int, span_id: int, ahead: AheadTerms, min_survival: float = 0.0
    ) -> None:
        """Tells the draft that its ready-made proposal of k tokens is under verification, which it does not answer."""
        if not ahead.num_branches:
            return
        self._pushed.asked_for(ahead.num_branches)
        propose = Propose(k=k, span_id=span_id, known=True, min_survival=min_survival)
        self._send(transcript, self._held, propose, ahead)

    def receive(self, reply: DraftReply, transcript: Transcript) -> Answer | None:
        """Takes a reply; returns it where it answers the open question. Raises ForerunError for nonsense or a Fault."""
        self._heard_at = self._now()
        match reply.WhichOneof("message"):
            case "proposal":
                return self._questions.answered(reply.proposal, self._heard_at)
            case "ahead":
                self._pushed.keep(reply.ahead)
                return self._found()
            case "held":
                self._repeat(transcript, reply.held.len)
            case "draining":
                self._drains()
            case "fault":
                raise ServiceUnavailable(f"the draft gave up: {reply.fault.message}")
            case None:
                raise ServiceUnavailable("the draft sent an empty message")
        return None

    def settle(self, answer: Answer, num_accepted: int) -> None:
        """The draft holds its own tokens that were accepted.

        Of what it pushed it need not hold more than it was told: it may never have heard that it was used.
        """
        if not answer.ahead:
            self._held = answer.proposal.base_len + num_accepted
        self._judged = True
        if self.replica is not None:
            self.replica.worked()
        self._num_settled += 1
        if self._num_settled >= NUM_TRUSTED:
            self._backoff_s = FIRST_BACKOFF_S

    def lost(self, error: ForerunError) -> None:
        """The stream broke: takes the replica out for all, where it seems to be gone, and closes."""
        if self.replica is not None and isinstance(error, ServiceUnavailable):
            self._replicas.failed(self.replica, error)
        self.give_up()

    def give_up(self) -> None:
        """Closes the stream; it is opened again after a pause that doubles each time in a row."""
        self.abort()
        self._retry_at = self._now() + self._backoff_s
        self._backoff_s = min(2 * self._backoff_s, MAX_BACKOFF_S)

    def finish(self) -> None:
        """Ends the stream normally."""
        self._end(DraftRequest(finish=Finish()))

    def abort(self) -> None:
        """Ends the stream of an answer that nobody wants."""
        self._end(DraftRequest(abort=Abort()))

    def _end(self, last: DraftRequest) -> None:
        if self.stream is not None:
            self.stream.end(last)
        if self.replica is not None:
            self.replica.left()
        self.stream, self.replica, self._num_settled, self._must_leave = None, None, 0, False
        self._judged = self._said_judged = False
        self._questions, self._pushed = Questions(self._terms.needs_laws), Pushed(self._terms.needs_laws)

    def _drains(self) -> None:
        self._must_leave = True
        if self.replica is not None:
            self._replicas.draining(self.replica)

    def _open(self, transcript: Transcript) -> None:
        replica = self._replicas.pick(self._terms.key)
        if replica is None or _room(replica, transcript) <= 0:
            self._retry_at = self._now() + FIRST_BACKOFF_S
            return
        self.replica = replica
        replica.joined()
        first, metadata = self._terms.opening(transcript), self._terms.metadata
        stream = replica.client.open(first, lambda reply: self._deliver(stream, reply), metadata)
        self.stream, self._held = stream, len(transcript)
        self.ask(transcript, 1)

    def _post(self, transcript: Transcript, start: int) -> None:
        asked = self._questions.open
        if asked is not None:
            deadline_s = asked.deadline_s * DRAFTS_SHARE
            propose = Propose(k=asked.k, deadline_s=deadline_s, span_id=asked.span_id, min_survival=asked.min_survival)
            self._send(transcript, start, propose, asked.ahead)

    def _send(self, transcript: Transcript, start: int, propose: Propose, ahead: AheadTerms) -> None:
        if self.stream is None:
            return
        if self.stream.has_unsent:
            start, self._judged = min(start, self._sent_from), self._judged or self._said_judged
        propose.base_len, propose.hash = start, transcript.hash
        propose.ids.extend(transcript.tail(start))
        propose.num_branches, propose.ahead_k, propose.judged = ahead.num_branches, ahead.k, self._judged
        self._held, self._sent_from, self._ahead_k = len(transcript), start, ahead.k
        self.stream.post(DraftRequest(propose=propose))
        self._judged, self._said_judged = False, self._judged

    def _found(self) -> Answer | None:
        """The answer to the open question, where it was pushed; one that was overtaken meanwhile is answered, too."""
        asked = self._questions.open
        if asked is None:
            return None
        proposal = self._pushed.take(asked.hash, asked.base_len)
        if proposal is None:
            return None
        return self._questions.answered_ahead(shortened(proposal, asked.k), asked, self._now())

    def _repeat(self, transcript: Transcript, held: int) -> None:
        """The draft lost tokens: sends the tail and keeps the deadline, or forgets a question that was overtaken."""
        if held >= len(transcript):
            raise ServiceUnavailable(f"the draft asks for tokens from {held} of {len(transcript)}")
        asked, self._held = self._questions.open, held
        if asked is not None and asked.base_len == len(transcript):
            self._post(transcript, held)
        elif not self._questions.has_answer:
            self.ask(transcript, 1)
        else:
            self._questions.forget()


def _room(replica: Replica[DraftClient] | None, transcript: Transcript) -> int:
    context_len = replica.info.max_model_len if replica is not None and replica.info is not None else 0
    return context_len - len(transcript) if context_len else NO_LIMIT
