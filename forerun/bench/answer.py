"""One streamed answer as a client sees it: what came, and when."""

import itertools
from dataclasses import dataclass, field
from typing import Any

from forerun.errors import ServiceUnavailable

Message = dict[str, str]


@dataclass
class Answer:
    """Times are seconds on one clock. `speculative`: the server's counts, None where it keeps none."""

    asked_s: float
    arrivals_s: list[float] = field(default_factory=list)  # of pieces of text
    ended_s: float | None = None
    text: str = ""
    num_tokens: int | None = None
    speculative: dict[str, Any] | None = None

    def take(self, event: dict[str, Any], at_s: float) -> None:
        """Adds what an event of the stream brought. Raises ServiceUnavailable with the server's words for an error."""
        if "error" in event:
            raise ServiceUnavailable(f"the answer broke off: {event['error'].get('message', event['error'])}")
        for choice in event["choices"]:
            self.ended_s = at_s
            if piece := choice["delta"].get("content"):
                self.text += piece
                self.arrivals_s.append(at_s)
        if usage := event.get("usage"):
            self.num_tokens = int(usage["completion_tokens"])
            self.speculative = event.get("speculative")

    @property
    def ttft_s(self) -> float | None:
        """Time to the first text; None where there is none."""
        return self.arrivals_s[0] - self.asked_s if self.arrivals_s else None

    @property
    def tpot_s(self) -> float | None:
        """Mean time of a token after the first; None where all came at once."""
        if self.ended_s is None or not self.num_tokens or self.num_tokens < 2 or len(self.arrivals_s) < 2:
            return None
        return (self.ended_s - self.arrivals_s[0]) / (self.num_tokens - 1)

    @property
    def gaps_s(self) -> list[float]:
        """From each piece of text to the next; a piece may be several tokens."""
        return [b - a for a, b in itertools.pairwise(self.arrivals_s)]
