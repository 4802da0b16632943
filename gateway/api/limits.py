"""What this gateway serves, and how much one request may ask of it."""

from dataclasses import dataclass

from forerun.errors import UnknownModel
from forerun.types import Verification
from gateway.generation import MAX_NUM_DRAFT_TOKENS

NO_LIMIT = 1 << 62


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds on one request, so that no single client can occupy the gateway; the last three hold for all together."""

    body_bytes: int = 10_000_000
    body_s: float = 60.0  # for a client to send it
    prompt_tokens: int = NO_LIMIT  # the model's context bounds it as well
    choices: int = 128  # n times the number of prompts
    output_tokens: int = NO_LIMIT  # of all choices together, should each use its max_tokens
    logprobs: int = 500_000  # of one answer
    stops: int = 16
    stop_len: int = 1_024
    stop_token_ids: int = 256
    top_logprobs: int = 20
    logit_bias: int = 1_024
    num_draft_tokens: int = MAX_NUM_DRAFT_TOKENS
    messages: int = 10_000
    running_choices: int = 0  # 0: as many as the targets run
    waiting_requests: int = 1_024
    queue_s: float = 60.0  # until the first token


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """The model behind this gateway; the first of `names` is what answers carry.

    `sampled_rule` verifies what is sampled without a seed; only match holds whatever a draft claims.
    """

    names: tuple[str, ...]
    vocab_size: int
    max_model_len: int
    eos_token_ids: tuple[int, ...]
    created: int = 0
    sampled_rule: Verification = Verification.REJECTION

    def check_name(self, name: str | None) -> str:
        """Returns the name that the answer carries, the first one for none. Raises UnknownModel."""
        if not name:
            return self.names[0]
        if name not in self.names:
            shown = name[:200] if isinstance(name, str) else "?"
            raise UnknownModel(f"model {shown!r} is not served here; served: {', '.join(self.names)}", "model")
        return name
