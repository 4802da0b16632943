"""Whether a round takes its proposal from the gateway's own drafters, and how long the target may go on without one."""

from functools import partial
from math import sqrt

from forerun.cost.pace import best_pace
from forerun.rpc.messages import Proposal
from gateway.ema import Ema
from gateway.own_drafters import DRAFTERS, SLICE, Offer, OwnDrafter
from gateway.own_memory import OwnMemory
from gateway.pair import PairRecord
from gateway.speculation import MIN_GAIN, full_grant
from gateway.transcript import Transcript

PROMISE_WEIGHT = 0.05
MIN_PROMISE = 0.001
MAX_PROMPT_LEN = 8_192  # tokens of a prompt that are looked at, the last ones
RUN_LEN = 8  # tokens for which offers, once there is one, go on


class OwnDrafting:
    """One sequence's. `_promise` is what the best offer would win a token over going without, on average of late.

    `_text` is the transcript from `_start` on, as far as it was read. Where the memory has no room for more of it the
    sequence goes on without drafters.
    """

    def __init__(
        self, pair: PairRecord, kind: str, transcript: Transcript, max_k: int, enabled: bool, memory: OwnMemory
    ) -> None:
        self._costs, self._transcript, self._max_k = pair.costs, transcript, max_k
        names = DRAFTERS if enabled else ()
        self._drafters = [OwnDrafter(name, kind, pair.acceptance, max_k) for name in names]
        self._memory = memory
        self._start = max(transcript.num_prompt_tokens - MAX_PROMPT_LEN, 0)
        self._text: list[int] = []
        self._offer: Offer | None = None
        self._promise = Ema(PROMISE_WEIGHT)
        self._promise.add(0.0)

    def close(self) -> None:
        """Nothing is offered any more, and the memory is given back."""
        self._memory.give_back(len(self._text))
        self._drafters, self._text, self._offer = [], [], None
        self._promise = Ema(PROMISE_WEIGHT)

    def follow(self, num_sequences: int) -> None:
        """Reads what was committed since, or a slice of it, and learns from it."""
        if not self._drafters or self._has_read_all():
            return
        new = self._transcript.tail(self._start + len(self._text))[:SLICE]
        if not self._memory.take(len(new)):
            self.close()
            return
        for token in new:
            self._text.append(token)
            for drafter in self._drafters:
                drafter.read(token)
        if self._has_read_all():
            for drafter in self._drafters:
                drafter.follow(self._text)
            self._offer = self._best(num_sequences, self._max_k)
            self._promise.add(self._offer.gain - 1.0 if self._offer else 0.0)

    def offer(self, num_sequences: int, limit: int) -> Offer | None:
        """The best proposal of at most `limit` tokens, None where none is worth more than going without."""
        if not self._has_read_all():
            return None
        return self._offer if limit >= self._max_k else self._best(num_sequences, limit)

    def _has_read_all(self) -> bool:
        return self._start + len(self._text) == len(self._transcript)

    def _best(self, num_sequences: int, limit: int) -> Offer | None:
        plain_s = self._costs.plain_s(num_sequences)
        if plain_s is None:
            return None
        round_s = partial(self._costs.own_round_s, num_sequences=num_sequences)
        best = Offer("", (), MIN_GAIN)
        for drafter in self._drafters:
            pace, tokens = drafter.best(self._text, partial(best_pace, round_s=round_s, plain_s=plain_s, limit=limit))
            if tokens and pace.gain > best.gain:
                best = Offer(drafter.name, tokens, pace.gain)
        return best if best.tokens else None

    def grant(self, num_sequences: int) -> int:
        """Tokens that the target may go on for until there is a look for an offer.

        A look costs what a round costs beyond a plain step, o; a run of offers that is noticed g / 2 tokens late loses
        that part of what it promises: g + 1 = sqrt(2 o RUN_LEN / promise) is cheapest.
        """
        overhead, promise = self._overhead(num_sequences), self._promise.or_else(0.0)
        longest = full_grant(self._costs, num_sequences)
        if not self.is_hopeful(num_sequences):
            return longest
        return min(max(int(sqrt(2 * overhead * RUN_LEN / promise)) - 1, 0), longest)

    def is_hopeful(self, num_sequences: int) -> bool:
        """Whether offers come so often that looking for them pays."""
        promise = self._promise.or_else(0.0)
        return promise > MIN_PROMISE and promise > 2 * self._overhead(num_sequences) / RUN_LEN

    def _overhead(self, num_sequences: int) -> float:
        plain_s = self._costs.plain_s(num_sequences)
        return max(self._costs.own_round_s(0, num_sequences) / plain_s - 1.0, 0.0) if plain_s else 0.0


def certain(offer: Offer, base_len: int, needs_laws: bool) -> Proposal:
    """The proposal of an offer: q is 1 at each token where laws are needed."""
    num = len(offer.tokens) if needs_laws else 0
    return Proposal(
        base_len=base_len,
        tokens=offer.tokens,
        support_lens=[1] * num,
        support_ids=offer.tokens[:num],
        weights=[1] * num,
    )
