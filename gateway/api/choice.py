"""The sink of one choice: committed tokens in, text that may be sent out, and the decision where it ends."""

from collections.abc import Callable

from forerun.types import TokenLogprobs
from gateway.api.job import Ending, Piece
from gateway.generation import FinishReason
from gateway.stopping import StopStrings
from gateway.text import Text


class ChoiceSink:
    """A `Sink` (gateway/generation.py). `wake` is called after each verdict; `take` returns what came since.

    A token's logprobs leave with its text, so that nothing of a stop string leaks through them either.
    """

    def __init__(self, index: int, text: Text, ending: Ending, max_tokens: int, wake: Callable[["ChoiceSink"], None]):
        self.index = index
        self.num_tokens = 0
        self.finish_reason: FinishReason | None = None
        self.prompt_logprobs: tuple[TokenLogprobs, ...] | None = None  # None until they are there
        self._ending = ending
        self._max_tokens = max_tokens
        self._wake = wake
        self._detokenizer = text.detokenizer()
        self._stops = StopStrings(ending.stop_strings)
        self._num_seen = 0  # characters that came out of the detokeniser
        self._num_ready = 0  # characters of them that may be sent
        self._ready: list[str] = []
        self._ids: list[int] = []
        self._held_logprobs: list[tuple[int, int, TokenLogprobs]] = []

    def push(self, token: int, logprobs: TokenLogprobs | None) -> FinishReason | None:
        """See `Sink.push`: a stop token, a stop string and the cap are looked for in this order."""
        self.num_tokens += 1
        self._ids.append(token)
        if logprobs is not None:
            self._held_logprobs.append((self._num_seen, token, logprobs))
        is_stop_token = token in self._ending.stop_token_ids
        if self._add("" if is_stop_token else self._detokenizer.push(token)):
            self._drop_cut_logprobs()
            return self._finish("stop")
        if is_stop_token or self.num_tokens >= self._max_tokens:
            return self._end_text("stop" if is_stop_token else "length")
        return None

    def push_prompt_logprobs(self, logprobs: tuple[TokenLogprobs, ...]) -> None:
        """See `Sink.push_prompt_logprobs`."""
        self.prompt_logprobs = logprobs

    def flush(self) -> None:
        """See `Sink.flush`."""
        self._wake(self)

    def take(self) -> Piece:
        """Returns everything that may be sent and was not yet."""
        released = self._take_logprobs()
        piece = Piece(
            self.index,
            "".join(self._ready),
            tuple(self._ids),
            tuple(token for _, token, _ in released),
            tuple(logprobs for _, _, logprobs in released),
            tuple(start for start, _, _ in released),
            self.finish_reason,
        )
        self._ready.clear()
        self._ids.clear()
        return piece

    def _add(self, delta: str) -> bool:
        """Takes text; returns whether a stop string ended it."""
        if not delta:
            return False
        self._num_seen += len(delta)
        if self.num_tokens < self._ending.min_tokens:
            self._release(delta)
            return False
        text, stopped = self._stops.push(delta)
        self._release(text)
        return stopped

    def _release(self, text: str) -> None:
        self._num_ready += len(text)
        self._ready.append(text)

    def _end_text(self, reason: FinishReason) -> FinishReason:
        """Lets go of what was held: the bytes of a broken character, the beginning of a stop string."""
        if self._add(self._detokenizer.flush()):
            self._drop_cut_logprobs()
            return self._finish("stop")
        self._release(self._stops.flush())
        return self._finish(reason)

    def _finish(self, reason: FinishReason) -> FinishReason:
        self.finish_reason = reason
        return reason

    def _drop_cut_logprobs(self) -> None:
        self._held_logprobs = [entry for entry in self._held_logprobs if entry[0] < self._num_ready]

    def _take_logprobs(self) -> list[tuple[int, int, TokenLogprobs]]:
        held = self._held_logprobs
        num = len(held)
        if self.finish_reason is None:
            num = next((i for i, (start, _, _) in enumerate(held) if start >= self._num_ready), num)
        self._held_logprobs = held[num:]
        return held[:num]
