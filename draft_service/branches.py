"""Drafting for one outcome of a verification that is still under way."""

from collections.abc import Callable

import numpy as np
from opentelemetry.trace import Span

from draft_service.drafted import Drafted
from draft_service.drawing import Drawer
from forerun.engine.loop import EngineLoop
from forerun.engine.owner import StepReport
from forerun.engine.sequence import Sequence


class Branch:
    """Owns an expendable sequence that ends in the outcome's token; `done` is called when its tokens are drafted: so
    many, or fewer where their q say stop.

    Whatever goes wrong with it, it is gone and nobody else notices.
    """

    def __init__(
        self, hash_: int, num_tokens: int, drawer: Drawer, says_stop: Callable[[list[float]], bool],
        loop: EngineLoop, span: Span, done: Callable[[], None],
    ) -> None:  # fmt: skip
        self.hash, self.span = hash_, span
        self.drafted: Drafted | None = None
        self._num_tokens, self._drawer, self._says_stop = num_tokens, drawer, says_stop
        self._loop, self._done = loop, done

    @property
    def is_finished(self) -> bool:
        """Whether nothing more will come of it."""
        return self.drafted is None or self.drafted.num_due == 0

    def begin(self, sequence: Sequence) -> None:
        """The engine has room for it."""
        self.drafted = Drafted(sequence, len(sequence.tokens), self._num_tokens)

    def drop(self) -> None:
        """Frees what it holds."""
        if self.drafted is not None:
            self._loop.remove(self.drafted.sequence)
            self.drafted = None

    def on_logits(self, logits: np.ndarray, step: StepReport) -> None:
        if self.drafted is None:
            return
        self.drafted.draw(self._drawer, logits[-1], wants_q=True)
        self.drafted.keep(logits[-1])
        if self._says_stop(self.drafted.qs):
            self.drafted.num_due = 0
        sequence = self.drafted.sequence
        if self.drafted.num_due:
            sequence.request(len(sequence.tokens), 1)
        else:
            sequence.rest()
            self._done()

    def on_starved(self, reason: str) -> None:
        self._lose()

    def on_overflow(self) -> None:
        self._lose()

    def on_fault(self, error: Exception) -> None:
        self._lose()

    def _lose(self) -> None:
        self.drop()
        self._done()
