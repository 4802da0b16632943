"""A request after every check: what the runner executes and the shapes print."""

from dataclasses import dataclass
from typing import Literal

from forerun.types import SamplingParams, TokenLogprobs
from gateway.generation import SpeculationSettings


@dataclass(frozen=True, slots=True)
class Prompt:
    """One prompt's ids; `text` is what echo repeats, `offsets` where in it each of them begins if laws go with it."""

    ids: tuple[int, ...]
    max_tokens: int
    text: str = ""
    offsets: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Ending:
    """Where a choice ends, apart from its max_tokens. Stop strings count once min_tokens are there."""

    stop_strings: tuple[str, ...] = ()
    stop_token_ids: frozenset[int] = frozenset()
    min_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Sampling:
    """How tokens are drawn and how they are sped up."""

    params: SamplingParams
    seed: int
    ending: Ending
    speculation: SpeculationSettings
    user_seed: int | None = None


@dataclass(frozen=True, slots=True)
class Job:
    """One checked request. Choice i belongs to prompt i // n."""

    endpoint: Literal["chat", "completion"]
    model: str
    prompts: tuple[Prompt, ...]
    sampling: Sampling
    n: int = 1
    stream: bool = False
    include_usage: bool = False
    echo: bool = False
    num_logprobs: int | None = None
    cache_salt: str = ""
    return_token_ids: bool = False

    @property
    def num_choices(self) -> int:
        """How many answers the request gets."""
        return self.n * len(self.prompts)

    @property
    def num_prompt_logprobs(self) -> int | None:
        """Logprobs of the prompt are asked for by echo with logprobs."""
        return self.num_logprobs if self.echo else None


@dataclass(frozen=True, slots=True)
class Piece:
    """What one choice produced since its last piece.

    logprobs align with `logprob_ids`, the ids they belong to, and with `offsets`, where those begin in the whole text.
    """

    index: int
    text: str = ""
    token_ids: tuple[int, ...] = ()
    logprob_ids: tuple[int, ...] = ()
    logprobs: tuple[TokenLogprobs, ...] = ()
    offsets: tuple[int, ...] = ()
    finish_reason: str | None = None
