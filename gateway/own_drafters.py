"""The gateway's own drafters: lookups in the text, free of any wire, each trusted as far as it was right before.

What they propose and whether it is used depends on committed tokens alone (docs/protocol.md, invariant 3): at every
place each is asked what it would say, and scored against what comes. That is cheap, and holds under every rule: the
target accepts a certain token x with probability p(x), which is how often it emits x anyway.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import takewhile

from forerun.cost.pace import NO_PACE, Pace
from forerun.lookup import Lookup, Place, continuation
from forerun.lookup.ngram import NgramIndex
from forerun.lookup.suffix_automaton import SuffixAutomaton
from gateway.acceptance import Acceptance, SharedAcceptance

DRAFTERS: dict[str, Callable[[], Lookup]] = {"suffix": SuffixAutomaton, "ngram": NgramIndex}
PRIOR = 0.3  # a repetition of unknown worth
MIN_LENGTH = 2  # tokens of a repetition that is worth a look
MAX_LENGTH_CLASS = 5  # repetitions of 2-3, 4-7, 8-15, and of 16 tokens or more
SLICE = 256  # tokens of a long prompt that are read at a time: a millisecond or two

SharedTables = dict[str, SharedAcceptance]


@dataclass(frozen=True, slots=True)
class Offer:
    """A proposal of certain tokens, and what it is worth."""

    drafter: str
    tokens: tuple[int, ...]
    gain: float


@dataclass(frozen=True, slots=True)
class _Guess:
    """What a drafter said at a place of the text, to be scored once the text has gone on."""

    at: int
    tokens: tuple[int, ...]
    table: Acceptance


class OwnDrafter:
    """One lookup over one text, with its acceptance by the length of the repetition."""

    def __init__(self, name: str, kind: str, shared: SharedTables, max_k: int) -> None:
        self.name, self._kind, self._shared, self._max_k = name, kind, shared, max_k
        self._lookup = DRAFTERS[name]()
        self._tables: dict[int, Acceptance] = {}
        self._guess: _Guess | None = None
        self._place: Place | None = None

    def read(self, token: int) -> None:
        """The text, a part of the prompt so far, goes on."""
        self._lookup.read(token)

    def follow(self, text: Sequence[int]) -> None:
        """`text` is all that there is at present: scores the last guess where it can be, and makes the next."""
        place = self._lookup.place()
        self._place = place if place is not None and place.length >= MIN_LENGTH else None
        if self._guess is not None:
            self._score(self._guess, text)
        if self._guess is None and self._place is not None:
            tokens = continuation(text, self._place, self._max_k)
            self._guess = _Guess(len(text), tokens, self._table(self._place))

    def best(self, text: Sequence[int], pace: Callable[[Callable[[int], float]], Pace]) -> tuple[Pace, tuple[int, ...]]:
        """The best pace here and its tokens; `pace` turns P(accepted) by position into one."""
        if self._place is None:
            return NO_PACE, ()
        best = pace(self._table(self._place).at)
        return best, continuation(text, self._place, best.k)

    def _score(self, guess: _Guess, text: Sequence[int]) -> None:
        came = text[guess.at : guess.at + len(guess.tokens)]
        num_right = sum(1 for _ in takewhile(bool, (a == b for a, b in zip(guess.tokens, came, strict=False))))
        if num_right == len(came) < len(guess.tokens):
            return
        guess.table.saw([1.0] * num_right + [0.0] * (num_right < len(guess.tokens)))
        self._guess = None

    def _table(self, place: Place) -> Acceptance:
        length_class = min(place.length.bit_length(), MAX_LENGTH_CLASS)
        if length_class not in self._tables:
            name = f"{self._kind} {self.name} {length_class}"
            self._tables[length_class] = Acceptance(self._shared.setdefault(name, SharedAcceptance(PRIOR)))
        return self._tables[length_class]
