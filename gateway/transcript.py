"""The one truth about a sequence: which tokens are committed. Draft and target hold caches of a prefix of it."""

from collections.abc import Sequence

from forerun.transcript_hash import transcript_hash


class Transcript:
    """The prompt and every committed token; it only grows, and `hash` is always that of the whole."""

    def __init__(self, prompt: Sequence[int]) -> None:
        self._ids = list(prompt)
        self.num_prompt_tokens = len(self._ids)
        self.hash = transcript_hash(self._ids)

    def __len__(self) -> int:
        return len(self._ids)

    @property
    def num_generated(self) -> int:
        """Committed tokens that the client did not write."""
        return len(self._ids) - self.num_prompt_tokens

    def commit(self, tokens: Sequence[int]) -> None:
        """Appends `tokens` for good."""
        self._ids.extend(tokens)
        self.hash = transcript_hash(tokens, self.hash)

    def tail(self, start: int) -> list[int]:
        """The tokens from `start` on."""
        return self._ids[start:]
