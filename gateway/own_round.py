"""A round whose proposal the gateway has by itself: nothing to wait for but the verdict."""

from gateway.clock import running_clock
from gateway.learning import Learning
from gateway.listener import Listener
from gateway.own_drafters import Offer
from gateway.own_drafting import certain
from gateway.target_link import TargetLink
from gateway.transcript import Transcript
from gateway.watch import Watch


class OwnRound:
    """Runs such rounds for one sequence; needs_laws says whether its rule asks for the law of each token."""

    def __init__(
        self, target: TargetLink, transcript: Transcript, listener: Listener, learning: Learning, watch: Watch,
        needs_laws: bool,
    ) -> None:  # fmt: skip
        self._target, self._transcript, self._listener = target, transcript, listener
        self._learning, self._watch, self._needs_laws = learning, watch, needs_laws
        self._now = running_clock()

    async def run(self, offer: Offer) -> None:
        """Has the target verify the offer; its verdict is committed afterwards, unless the text ended otherwise."""
        span = self._watch.start_round(len(self._transcript))
        try:
            started = self._now()
            num_accepted = await self._verify(offer, self._watch.span_id(span))
            took_s = self._now() - started
            num_drafted = len(offer.tokens)
            self._watch.end_round(span, num_drafted, num_accepted, took_s, 0.0, took_s, drafter=offer.drafter)
        finally:
            self._watch.close_round(span)

    async def _verify(self, offer: Offer, span_id: int) -> int:
        listener, base_len, asked_at = self._listener, len(self._transcript), self._now()
        self._learning.interrupted()
        listener.expect_nothing()
        num_moves = listener.num_moves
        self._target.verify(self._transcript, certain(offer, base_len, self._needs_laws), span_id=span_id)
        await listener.hear_until(base_len + 1)
        verdict = listener.verdict
        if verdict is None:
            return 0
        self._learning.saw_verified(len(offer.tokens), verdict)
        if listener.num_moves == num_moves:
            self._learning.saw_wait(len(offer.tokens), verdict, self._now() - asked_at)
        if verdict.refused:
            self._watch.refused("target")
        return verdict.num_accepted
