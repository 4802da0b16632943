"""Stop strings: text is cut exactly before the first one to complete, and nothing of it ever leaves."""

from collections.abc import Sequence


class StopStrings:
    """Lets text through except for what may still become a stop string.

    Of several stop strings the one that completes first counts, and of those the longest, so the result does
    not depend on how the text was cut into pieces.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = tuple(dict.fromkeys(stops))
        self._held = ""

    def push(self, text: str) -> tuple[str, bool]:
        """Returns the text that may be sent, and whether a stop string was found right after it."""
        if not self._stops:
            return text, False
        text = self._held + text
        found = [(at + len(stop), at) for stop in self._stops if (at := text.find(stop)) >= 0]
        if found:
            self._held = ""
            return text[: min(found)[1]], True
        cut = len(text) - self._num_doubtful(text)
        self._held = text[cut:]
        return text[:cut], False

    def flush(self) -> str:
        """Returns the held text, which no stop string will claim any more."""
        held, self._held = self._held, ""
        return held

    def _num_doubtful(self, text: str) -> int:
        """Length of the longest end of `text` that begins a stop string."""
        return max(_overlap(text, stop) for stop in self._stops)


def _overlap(text: str, stop: str) -> int:
    """Length of the longest end of `text` that is a proper beginning of `stop`."""
    at = text.find(stop[0], max(0, len(text) - len(stop) + 1))
    while at >= 0 and not stop.startswith(text[at:]):
        at = text.find(stop[0], at + 1)
    return len(text) - at if at >= 0 else 0
