"""The longest repetition: a suffix automaton over the text so far (Blumer et al. 1985; SAM-Decoding, arXiv 2411.10666).

A state stands for the strings that end at the same places. The suffix link of the text's own state is the longest end
of the text that also stood earlier. Reading a token takes O(1), amortised, and adds at most two states.
"""

from forerun.lookup import Place

ROOT = 0


class SuffixAutomaton:
    """`_end[s]` is a place where the strings of state s end, the latest at which s was the longest repetition."""

    def __init__(self) -> None:
        self._next: list[dict[int, int]] = [{}]
        self._link, self._length, self._end = [-1], [0], [0]
        self._last = ROOT
        self._len = 0

    def read(self, token: int) -> None:
        """See Lookup."""
        self._settle()
        self._len += 1
        state = self._add({}, self._length[self._last] + 1, self._len)
        origin = self._last
        while origin >= 0 and token not in self._next[origin]:
            self._next[origin][token] = state
            origin = self._link[origin]
        self._link[state] = ROOT if origin < 0 else self._suffix(origin, token)
        self._last = state

    def place(self) -> Place | None:
        """See Lookup."""
        suffix = self._link[self._last]
        return Place(self._end[suffix], self._length[suffix]) if suffix > ROOT else None

    def _settle(self) -> None:
        """The repetition at the end of the text becomes the latest one, now that something follows it."""
        suffix = self._link[self._last]
        if suffix > ROOT:
            self._end[suffix] = self._len

    def _suffix(self, origin: int, token: int) -> int:
        """The state of the strings of `origin` + token alone, split off from longer ones where they share a state."""
        state = self._next[origin][token]
        if self._length[state] == self._length[origin] + 1:
            return state
        split = self._add(dict(self._next[state]), self._length[origin] + 1, self._end[state])
        self._link[split] = self._link[state]
        self._link[state] = split
        while origin >= 0 and self._next[origin].get(token) == state:
            self._next[origin][token] = split
            origin = self._link[origin]
        return split

    def _add(self, transitions: dict[int, int], length: int, end: int) -> int:
        self._next.append(transitions)
        self._link.append(ROOT)
        self._length.append(length)
        self._end.append(end)
        return len(self._next) - 1
