"""Ahead of the verdict: while a proposal is verified, drafts for the likely outcomes, and pushes what it drafted.

What a branch holds is what the draft would answer, were it asked for that transcript on the same terms: noise is keyed
by place. Which outcomes get a branch follows from the laws of the proposal and from past verdicts; the verdict never
depends on it.
"""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from opentelemetry.trace import INVALID_SPAN, Span

from draft_service.branches import Branch
from draft_service.drafted import Drafted
from draft_service.drawing import Drawer, Guesses
from draft_service.experience import Experience
from draft_service.odds import Outcome
from forerun.engine.loop import EngineLoop
from forerun.engine.owner import Owner
from forerun.rpc import convert
from forerun.rpc import messages as wire
from forerun.transcript_hash import transcript_hash

MAX_BRANCHES = 32
"""Of one sequence: more than these are not worth a peer's asking."""


class Ahead:
    """One sequence's branches; lives on the device thread.

    At most one set is alive: that for the outcomes of the last proposal. `take` picks the one that came true.
    """

    def __init__(
        self, loop: EngineLoop, drawer: Drawer, experience: Experience, max_model_len: int,
        push: Callable[[wire.Ahead], None],
    ) -> None:  # fmt: skip
        self._loop, self._drawer, self._confidence = loop, drawer, experience.confidence
        self._odds, self._width = experience.odds, experience.width
        self._max_model_len, self._push = max_model_len, push
        self._parent: Drafted | None = None
        self._hash = 0
        self._k, self._min_survival = 0, 0.0
        self._span: Span = INVALID_SPAN
        self._positions: list[Guesses] = []
        self._survival = 0.0
        self._num_asked = 0
        self._num_bonus = 0
        self._branches: list[Branch] = []

    def start(self, parent: Drafted, asked: wire.Propose, span: Span) -> None:
        """Begins branches of at most asked.ahead_k tokens each for what a verification of parent's tokens may come to.

        asked.hash is that of the transcript before those tokens.
        """
        self._num_asked = min(asked.num_branches, MAX_BRANCHES)
        num_branches = self._width.within(self._num_asked)
        self._parent, self._hash, self._span = parent, asked.hash, span
        self._k, self._min_survival = asked.ahead_k, asked.min_survival
        self._positions = [self._guess(parent, i, num_branches) for i in range(len(parent.tokens))]
        parent.rows.clear()
        self._survival = self._odds.survival(self._positions)
        cuts = self._odds.cuts(self._positions)
        self._num_bonus = self._share_of_bonus(cuts, num_branches)
        self._fork(cuts[: num_branches - self._num_bonus])
        if self._num_bonus:
            self._ask_for_bonus(parent)

    def on_logits(self, logits: np.ndarray) -> None:
        """The law after the parent's last token: where the bonus token will stand."""
        if self._parent is None:
            return
        tokens = self._parent.sequence.tokens
        guesses = self._drawer.guess(logits, tokens, self._num_bonus, None)
        self._positions.append(guesses)
        outcomes = self._odds.bonuses(len(self._parent.tokens), self._survival, guesses)
        self._fork(outcomes[: self._num_bonus])

    def take(self, base_len: int, ids: Sequence[int], hash_: int, was_known: bool) -> Drafted | None:
        """The transcript went on: the branch whose outcome that is, for its new owner; all others are freed.

        was_known: its proposal came in time.
        """
        self._learn(base_len, ids)
        found = next((branch for branch in self._branches if branch.hash == hash_), None)
        if self._parent is not None:
            self._width.saw(self._num_asked, self._is_done and (found is None or was_known))
        drafted = found.drafted if found is not None else None
        if drafted is not None and not _continues(drafted, base_len, ids):
            drafted = None
        if drafted is not None and found is not None:
            found.drafted = None
        self.cancel()
        return drafted

    def cancel(self) -> None:
        """Frees all branches."""
        for branch in self._branches:
            branch.drop()
        self._branches.clear()
        self._parent = None

    @property
    def _is_done(self) -> bool:
        has_bonus = not self._num_bonus or len(self._positions) > len(self._parent.tokens if self._parent else ())
        return has_bonus and all(branch.is_finished for branch in self._branches)

    def _guess(self, parent: Drafted, place: int, num_others: int) -> Guesses:
        context = parent.sequence.tokens[: parent.base_len + place]
        return self._drawer.guess(parent.rows[place], context, num_others, parent.tokens[place])

    def _share_of_bonus(self, cuts: Sequence[Outcome], num_branches: int) -> int:
        """How many of the likeliest outcomes are full acceptances, as far as that is known before their law is."""
        usual_q = sum(guesses.q for guesses in self._positions) / len(self._positions)
        unknown = Guesses(-1, usual_q, tuple(range(num_branches)))
        bonuses = self._odds.bonuses(len(self._positions), self._survival, unknown)
        both = sorted([*cuts[:num_branches], *bonuses], key=lambda outcome: -outcome.probability)
        return sum(outcome.num_accepted == len(self._positions) for outcome in both[:num_branches])

    def _ask_for_bonus(self, parent: Drafted) -> None:
        """Where there is no block for the one token more that this takes, there is no bonus branch."""
        table, sequence = self._loop.table, parent.sequence
        length = len(sequence.tokens)
        if sequence.num_computed < length - 1 or table.num_missing_blocks(sequence, length) > table.pool.num_free:
            return
        table.demand(sequence, 1)
        table.reserve(sequence, length)

    def _fork(self, outcomes: Sequence[Outcome]) -> None:
        """Begins as many of these branches, in order, as there are blocks for; they are pushed together."""
        parent, group = self._parent, list[Branch]()
        if parent is None:
            return
        forks = list[tuple[int, list[int], int, Owner]]()
        for outcome in outcomes:
            length = parent.base_len + outcome.num_accepted
            k = min(self._k, self._max_model_len - length)
            if k > 0:
                group.append(self._branch(parent, outcome, k, partial(self._send, group)))
                forks.append((length, [outcome.token], length + k, group[-1]))
        sequences = self._loop.fork(parent.sequence, forks)
        del group[len(sequences) :]
        for branch, sequence in zip(group, sequences, strict=True):
            branch.begin(sequence)
        self._branches += group

    def _branch(self, parent: Drafted, outcome: Outcome, k: int, done: Callable[[], None]) -> Branch:
        new = [*parent.tokens[: outcome.num_accepted], outcome.token]
        says_stop = partial(self._confidence.says_stop, min_survival=self._min_survival)
        return Branch(transcript_hash(new, self._hash), k, self._drawer, says_stop, self._loop, self._span, done)

    def _send(self, group: list[Branch]) -> None:
        """Pushes a group once none of it is under way."""
        if all(branch.is_finished for branch in group):
            ready = [to_wire(branch.drafted, branch.hash, 0.0) for branch in group if branch.drafted is not None]
            group.clear()
            if ready:
                self._push(wire.Ahead(branches=ready))

    def _learn(self, base_len: int, ids: Sequence[int]) -> None:
        """What the verification came to, where the message tells: one token of the target's own is new."""
        parent = self._parent
        if parent is None or not ids or base_len < parent.base_len:
            return
        drafted, num_accepted = parent.tokens, base_len + len(ids) - 1 - parent.base_len
        if num_accepted <= len(drafted) and drafted[base_len - parent.base_len : num_accepted] == list(ids[:-1]):
            self._odds.saw(self._positions, len(drafted), num_accepted, ids[-1])


def to_wire(drafted: Drafted, hash_: int, draft_s: float) -> wire.Branch:
    """What was drafted before it was asked for."""
    return wire.Branch(hash=hash_, proposal=convert.proposal_to_pb(drafted.proposal(draft_s)))


def _continues(drafted: Drafted, base_len: int, ids: Sequence[int]) -> bool:
    """Whether the transcript that the branch follows is that of the message: hashes may be equal by chance."""
    return drafted.base_len == base_len + len(ids) and drafted.sequence.tokens[base_len : drafted.base_len] == list(ids)
