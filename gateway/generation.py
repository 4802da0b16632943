"""What one choice of a request asks of the coordinator, and what the coordinator gives back."""

from dataclasses import dataclass
from typing import Literal, Protocol

from forerun.types import SamplingParams, TokenLogprobs

FinishReason = Literal["stop", "length"]
MAX_NUM_DRAFT_TOKENS = 32  # of a K that a request or a flag fixes; `auto` stays far below


@dataclass(frozen=True, slots=True)
class SpeculationSettings:
    """Whether and how far a draft runs ahead; num_draft_tokens None lets the gateway choose K."""

    enabled: bool = True
    num_draft_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class ChoiceRequest:
    """One sequence to generate. Prompt ids are in range; prompt + max_tokens fits the target's context.

    num_logprobs / num_prompt_logprobs: None for none, n for the token's own and the n most likely.
    max_tokens 0 asks for the prompt's logprobs alone.
    """

    prompt: tuple[int, ...]
    params: SamplingParams
    seed: int
    choice: int = 0
    max_tokens: int = 16
    cache_salt: str = ""
    num_logprobs: int | None = None
    num_prompt_logprobs: int | None = None
    speculation: SpeculationSettings = SpeculationSettings()


class Sink(Protocol):
    """Takes the tokens of one choice as they are committed, and alone decides where the text ends."""

    def push(self, token: int, logprobs: TokenLogprobs | None) -> FinishReason | None:
        """Takes the next committed token; a reason means that it is the last."""
        ...

    def push_prompt_logprobs(self, logprobs: tuple[TokenLogprobs, ...]) -> None:
        """Takes the laws of the prompt tokens after the first; called at most once, before any push."""
        ...

    def flush(self) -> None:
        """Called after each verdict: what was pushed since may be sent to the client."""
        ...


@dataclass(slots=True)
class ChoiceStats:
    """What one choice cost, filled in while it runs."""

    num_cached_tokens: int = 0
    num_drafts: int = 0
    num_draft_tokens: int = 0
    num_accepted_tokens: int = 0
