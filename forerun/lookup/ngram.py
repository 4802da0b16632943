"""Prompt lookup: the latest earlier place of the last few tokens (arXiv 2304.04487, prompt lookup decoding)."""

from forerun.lookup import Place


class NgramIndex:
    """An index of where each n-gram was last followed by something; the longest that matches counts."""

    def __init__(self, max_ngram: int = 4, min_ngram: int = 2) -> None:
        self._sizes = range(max_ngram, min_ngram - 1, -1)
        self._end: tuple[int, ...] = ()
        self._starts: dict[tuple[int, ...], int] = {}
        self._len = 0

    def __len__(self) -> int:
        """Tokens that were read."""
        return self._len

    def read(self, token: int) -> None:
        """See Lookup. The n-grams before `token` are indexed only now: it is what follows them."""
        for gram in self._grams():
            self._starts[gram] = self._len
        self._end = (*self._end, token)[-self._sizes.start :]
        self._len += 1

    def place(self) -> Place | None:
        """See Lookup."""
        for gram in self._grams():
            start = self._starts.get(gram)
            if start is not None:
                return Place(start, len(gram))
        return None

    def _grams(self) -> list[tuple[int, ...]]:
        return [self._end[-size:] for size in self._sizes if size <= len(self._end)]
