"""One text while the target writes it."""

import numpy as np
import numpy.typing as npt

from forerun.engine.sequence import Sequence
from forerun.training.document import Document
from forerun.training.opening import Opening

_LOOP_REPEATS = 4
_LOOP_MIN = 32  # tokens: shorter repetitions are lists and rhymes
_LOOP_MAX_PERIOD = 48


class Writing:
    """The sequence asks for one token after another until the last turn is over; `document` is what came of it.

    max_len: tokens at which any text ends. Where a turn goes round in circles the text ends too: nothing new comes.
    """

    def __init__(
        self, index: int, opening: Opening, ends: frozenset[int], max_len: int, rng: np.random.Generator
    ) -> None:
        self.sequence = Sequence(list(opening.ids), num_committed=len(opening.ids))
        self.sequence.request(len(opening.ids), 1)
        self._index = index
        self._turns = list(opening.turns)
        self._ends = ends
        self._max_len = max_len
        self._rng = rng
        self._scored = [False] * len(opening.ids)
        self._turn_start = len(opening.ids)
        self._top_ids: list[npt.NDArray[np.int64]] = []
        self._top_probs: list[npt.NDArray[np.float16]] = []
        self._temperature = opening.turns[-1].temperature

    @property
    def temperature(self) -> float:
        """Of the next token."""
        return self._turns[0].temperature

    def uniform(self) -> float:
        """Noise for the next token."""
        return float(self._rng.random())

    def take(self, token: int, top_ids: npt.NDArray[np.int64], top_probs: npt.NDArray[np.float16]) -> bool:
        """Adds a token and its law `[k]`, and what follows by itself; False where the text is over."""
        turn = self._turns[0]
        self._append(token, turn.scored)
        if turn.scored:
            self._top_ids.append(top_ids)
            self._top_probs.append(top_probs)
        if token in self._ends:
            return self._next_turn(token)
        num_written = len(self._scored) - self._turn_start
        if len(self._scored) >= self._max_len or goes_round(self.sequence.tokens, self._turn_start):
            return False
        if num_written >= turn.max_tokens:
            return not turn.scored and self._next_turn(None)
        self.sequence.request(len(self._scored), 1)
        return True

    @property
    def last_turn(self) -> list[int]:
        """The ids of the turn written last."""
        return self.sequence.tokens[self._turn_start :]

    def document(self) -> Document | None:
        """None where nothing of it has a law."""
        if not self._top_ids:
            return None
        return Document(
            self._index,
            self._temperature,
            np.array(self.sequence.tokens, np.int64),
            np.array(self._scored, np.bool_),
            np.stack(self._top_ids),
            np.stack(self._top_probs),
        )

    def _next_turn(self, end: int | None) -> bool:
        """Adds what stands between this turn and the next; `end` is the id that ended it and need not come twice."""
        turn = self._turns.pop(0)
        num_written = len(self._scored) - self._turn_start - (end is not None)
        then = turn.then[1:] if turn.then[:1] == (end,) else turn.then
        if not self._turns or not num_written or len(self._scored) + len(then) >= self._max_len:
            return False
        for token in then:
            self._append(token, False)
        self._turn_start = len(self._scored)
        self.sequence.request(len(self._scored), 1)
        return True

    def _append(self, token: int, scored: bool) -> None:
        self.sequence.tokens.append(token)
        self._scored.append(scored)


def goes_round(tokens: list[int], start: int) -> bool:
    """Whether tokens[start:] end in the same piece again and again."""
    longest = min(_LOOP_MAX_PERIOD, (len(tokens) - start) // _LOOP_REPEATS)
    for period in range(1, longest + 1):
        length = max(_LOOP_REPEATS * period, _LOOP_MIN)
        if length > len(tokens) - start or tokens[-1] != tokens[-1 - period]:
            continue
        if tokens[-length:-period] == tokens[period - length :]:
            return True
    return False
