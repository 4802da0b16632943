"""What is worth saying about a finished request: one value that span, metrics and log all read."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RequestSummary:
    """Counts over all choices of one request. Never holds a prompt, a token or a piece of text.

    operation: "chat" or "text_completion". time_to_first_token_s None: no token left.
    error: the type of what ended the request early ("cancelled" for a client that went away), empty if nothing did.
    """

    request_id: str
    operation: str
    model: str
    duration_s: float
    time_to_first_token_s: float | None = None
    finish_reasons: tuple[str, ...] = ()
    num_prompt_tokens: int = 0
    num_cached_tokens: int = 0
    num_generated_tokens: int = 0
    num_drafts: int = 0
    num_draft_tokens: int = 0
    num_accepted_tokens: int = 0
    stream: bool = False
    status: int = 200
    error: str = ""

    @property
    def time_per_output_token_s(self) -> float | None:
        """Mean seconds between tokens after the first; None below two tokens."""
        if self.time_to_first_token_s is None or self.num_generated_tokens < 2:
            return None
        return (self.duration_s - self.time_to_first_token_s) / (self.num_generated_tokens - 1)
