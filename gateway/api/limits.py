"""What this gateway serves, and how much one request may ask of it."""

from dataclasses import dataclass

from forerun.errors import UnknownModel
from gateway.generation import MAX_NUM_DRAFT_TOKENS


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds on one request, so that no single client can occupy the gateway."""

    body_bytes: int = 10_000_000
    choices: int = 128  # n times the number of prompts
    stops: int = 16
    stop_len: int = 1_024
    stop_token_ids: int = 256
    top_logprobs: int = 20
    logit_bias: int = 1_024
    num_draft_tokens: int = MAX_NUM_DRAFT_TOKENS
    messages: int = 10_000
    running_choices: int = 2_048  # of all requests together


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """The model behind this gateway; the first of `names` is what answers carry."""

    names: tuple[str, ...]
    vocab_size: int
    max_model_len: int
    eos_token_ids: tuple[int, ...]
    created: int = 0

    def check_name(self, name: str | None) -> str:
        """Returns the name that the answer carries, the first one for none. Raises UnknownModel."""
        if not name:
            return self.names[0]
        if name not in self.names:
            shown = name[:200] if isinstance(name, str) else "?"
            raise UnknownModel(f"model {shown!r} is not served here; served: {', '.join(self.names)}", "model")
        return name
