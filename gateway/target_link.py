"""A sequence's line to its target: opened, told how far it may go, and moved to another replica when one dies."""

from collections.abc import Callable

from forerun.errors import DeadlineExceeded, ForerunError, ServiceUnavailable
from forerun.rpc.clients import TargetClient, TargetStream
from forerun.rpc.messages import Abort, Finish, Proposal, TargetReply, TargetRequest, Verdict, Verify
from forerun.rpc.status import error_of_fault
from gateway.clock import running_clock
from gateway.replica import Replica
from gateway.replicas import Replicas, no_replica
from gateway.terms import TargetTerms
from gateway.transcript import Transcript

SILENCE_S = 3.0  # a target that works or queues says something every second; one that does not is looked at

Deliver = Callable[[TargetStream, TargetReply | ForerunError], None]


class TargetLink:
    """Never holds more than one unanswered message; `limit` is the length up to which verdicts are due.

    A Verify without proposal has the target produce tokens until the transcript is `limit` long; one with a proposal
    carries no grant and is answered by one verdict. So both sides count alike, and a renewal only raises the limit.
    `asked_at` is when the last one was sent.
    """

    def __init__(self, replicas: Replicas[TargetClient], terms: TargetTerms, deliver: Deliver) -> None:
        self._replicas, self._terms, self._deliver = replicas, terms, deliver
        self._now = running_clock()
        self._replica: Replica[TargetClient] | None = None
        self._failed: set[Replica[TargetClient]] = set()
        self.stream: TargetStream | None = None
        self._proposal: Proposal | None = None
        self._span_id = 0
        self._heard_at = self._looked_at = self.asked_at = 0.0
        self.limit = 0
        self._must_leave = False
        self.scores_prompt = terms.num_prompt_logprobs is not None
        self.has_prompt_logprobs = not self.scores_prompt

    def num_sequences(self) -> int:
        """Sequences of this gateway on the replica, this one included."""
        return max(self._replica.num_sequences, 1) if self._replica else 1

    def is_due(self, transcript: Transcript) -> bool:
        """Whether the target owes a verdict or the prompt's logprobs."""
        return self.limit > len(transcript) or not self.has_prompt_logprobs

    def has_proposal(self) -> bool:
        """Whether the verdict that is due is one on a proposal."""
        return self._proposal is not None

    def open(self, transcript: Transcript) -> None:
        """Opens the sequence on the replica that its prompt sticks to, avoiding those that failed it.

        Raises ServiceUnavailable where there is none.
        """
        replica = self._replicas.pick(self._terms.key, self._failed) or self._replicas.pick(self._terms.key)
        if replica is None:
            raise no_replica("target", self._replicas)
        first, metadata = self._terms.opening(transcript, not self.has_prompt_logprobs), self._terms.metadata
        stream = replica.client.open(first, lambda reply: self._deliver(stream, reply), metadata)
        self._replica, self.stream, self._heard_at = replica, stream, self._now()
        self._must_leave = False
        replica.joined()

    def verify(
        self, transcript: Transcript, proposal: Proposal | None = None, grant: int = 0, span_id: int = 0
    ) -> None:
        """Commits the transcript and asks for a verdict on `proposal`, or for 1 + grant tokens without one."""
        self._proposal, self._span_id = proposal, span_id
        self.limit = len(transcript) + 1 + grant
        self._heard_at = self.asked_at = self._now()
        self._post(transcript, len(transcript))

    def has_other(self) -> bool:
        """Whether there is a replica that did not fail this sequence since the last verdict."""
        tried = self._failed | ({self._replica} if self._replica else set())
        return self._replicas.pick(self._terms.key, tried) is not None

    def silent_at(self) -> float:
        """The loop time at which the target, if still silent, is to be looked at."""
        return min(max(self._heard_at, self._looked_at) + SILENCE_S, self._heard_at + self._terms.timeout_s)

    async def is_alive(self) -> bool:
        """Looks at a silent target; False where it does not answer, or has kept this sequence waiting for timeout_s."""
        answers = self._replica is not None and await self._replicas.still_answers(self._replica)
        self._looked_at = self._now()
        return answers and self._looked_at < self._heard_at + self._terms.timeout_s

    def receive(self, reply: TargetReply, transcript: Transcript) -> Verdict | None:
        """Takes a reply; returns it where it is a verdict that may be committed. Raises ForerunError otherwise."""
        self._heard_at = self._now()
        match reply.WhichOneof("message"):
            case "verdict":
                self._check(reply.verdict, transcript)
                self._tell(reply.verdict)
                return reply.verdict
            case "held":
                self._repeat(transcript, reply.held.len)
            case "draining":
                self._drains()
            case "fault":
                raise error_of_fault(reply.fault)
            case None:
                raise ServiceUnavailable("the target sent an empty message")
        return None

    def proposed(self, num_accepted: int) -> tuple[int, ...]:
        """The first tokens of the proposal under verification."""
        return tuple(self._proposal.tokens[:num_accepted]) if self._proposal is not None else ()

    def drop_proposal(self) -> None:
        """Asks for a token of the target's own in its place; the stream has to be opened anew."""
        self._proposal = None

    def settled(self) -> None:
        """A verdict was committed: the proposal is history."""
        self._proposal = None
        self._failed.clear()

    def move(self, transcript: Transcript, error: ForerunError) -> None:
        """Goes on at another replica, or at the same if there is no other, with everything committed so far.

        Raises ServiceUnavailable where there is none.
        """
        if self._replica is not None:
            self._failed.add(self._replica)
            if isinstance(error, ServiceUnavailable) and not isinstance(error, DeadlineExceeded):
                self._replicas.failed(self._replica, error)
        self.abort()
        self._resume(transcript)

    def may_hand_over(self, reply: TargetReply, transcript: Transcript) -> bool:
        """Whether the sequence is to leave a target that drains, now that `reply` was acted on.

        It does so between two verdicts, or where none comes soon, once there is another replica.
        """
        if not self._must_leave or not self.has_other():
            return False
        return not self.is_due(transcript) or reply.WhichOneof("message") in ("verdict", "waiting")

    def hand_over(self, transcript: Transcript) -> None:
        """Goes on at another replica with everything committed so far; what is due is asked for there."""
        self.abort()
        self._resume(transcript)

    def finish(self) -> None:
        """Ends the stream normally."""
        self._end(TargetRequest(finish=Finish()))

    def abort(self) -> None:
        """Ends the stream of an answer that nobody wants."""
        self._end(TargetRequest(abort=Abort()))

    def _resume(self, transcript: Transcript) -> None:
        self.open(transcript)
        if self.limit > len(transcript):
            self._post(transcript, len(transcript))

    def _drains(self) -> None:
        self._must_leave = True
        if self._replica is not None:
            self._replicas.draining(self._replica)

    def _end(self, last: TargetRequest) -> None:
        if self.stream is not None:
            self.stream.end(last)
        if self._replica is not None:
            self._replica.left()
        self.stream, self._replica = None, None

    def _post(self, transcript: Transcript, start: int) -> None:
        if self.stream is None:
            return
        verify = Verify(
            base_len=start,
            ids=transcript.tail(start),
            hash=transcript.hash,
            proposal=self._proposal,
            grant=self.limit - len(transcript) - 1,
            span_id=self._span_id,
        )
        self.stream.post(TargetRequest(verify=verify))

    def _repeat(self, transcript: Transcript, held: int) -> None:
        if held >= len(transcript):
            raise ServiceUnavailable(f"the target asks for tokens from {held} of {len(transcript)}")
        if self.limit > len(transcript):
            self._post(transcript, held)

    def _tell(self, verdict: Verdict) -> None:
        """What the verdict says of its replica's load, for all who look for a replica."""
        if self._replica is None:
            return
        self._replica.worked()
        own_rows = 1 + (len(self._proposal.tokens) if self._proposal is not None else 0)
        self._replica.load.saw_step(
            verdict.step_s, verdict.num_rows, own_rows, verdict.num_queued, self._replica.num_sequences, self._now()
        )

    def _check(self, verdict: Verdict, transcript: Transcript) -> None:
        num_proposed = len(self._proposal.tokens) if self._proposal is not None else 0
        if verdict.base_len != len(transcript) or verdict.num_accepted > num_proposed:
            raise ServiceUnavailable(
                f"the target's verdict on {verdict.num_accepted} tokens after {verdict.base_len} "
                f"does not fit {num_proposed} after {len(transcript)}"
            )
        if self._terms.num_logprobs is not None and len(verdict.logprobs) != verdict.num_accepted + 1:
            raise ServiceUnavailable("the target's verdict lacks the logprobs that were asked for")
        info = self._replica.info if self._replica else None
        if info is not None and verdict.token >= info.vocab_size:
            raise ServiceUnavailable(f"the target produced token {verdict.token}, outside its vocabulary")
