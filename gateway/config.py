"""The gateway's flags."""

from dataclasses import dataclass

from forerun.config import option
from forerun.errors import ConfigError
from gateway.generation import MAX_NUM_DRAFT_TOKENS
from gateway.lock_config import LockConfig


@dataclass(frozen=True)
class GatewayConfig(LockConfig):
    """The gateway: OpenAI's REST API and gRPC Generate over a draft and a target."""

    model: str = option("SmolLM2-135M-Instruct", "whose tokenizer and chat template it speaks: name, folder or hub id")
    served_model_name: str = option("", "what clients call the model; empty takes the model's own name")
    host: str = option("127.0.0.1", "address to listen on")
    http_port: int = option(8000, "port of the REST API")
    grpc_port: int = option(50050, "port of gRPC Generate; 0 takes a free one")
    target_addresses: tuple[str, ...] = option(
        ("127.0.0.1:50052",),
        "targets: host:port, dns:///name:port for all addresses of a name, or http://… for a page that lists them",
        alias="--target",
    )
    draft_addresses: tuple[str, ...] = option(
        ("127.0.0.1:50051",), "drafts, in the same ways; empty serves without", alias="--draft"
    )
    num_draft_tokens: str = option(
        "auto", f"tokens that a draft runs ahead: auto, or a number up to {MAX_NUM_DRAFT_TOKENS} that stays"
    )
    max_num_draft_tokens: int = option(16, "most that auto may choose")
    ahead: str = option(
        "auto", "have the draft run ahead of verdicts: auto does where that is measured to pay", ("auto", "on", "off")
    )
    own_drafter: str = option(
        "auto", "draft from repetitions in the text itself, where that is measured to pay: auto or off", ("auto", "off")
    )
    target_timeout_s: float = option(60.0, "longest silence on a request's stream of a target that is well otherwise")
    max_streams: int = option(256, "concurrent gRPC calls; more are refused")
    grace_s: float = option(10.0, "seconds that running requests get to end after SIGTERM")
    reflection: bool = option(False, "gRPC reflection, for development")
    log_level: str = option("INFO", "DEBUG, INFO, WARNING or ERROR")
    log_format: str = option("json", "json or text", ("json", "text"))
    log_content: bool = option(False, "show the words of unforeseen errors in logs, which may quote prompts and tokens")

    def __post_init__(self) -> None:
        """Raises ConfigError for a limit or a number of draft tokens that no request could keep to."""
        self.check_limits()
        fixed = self.fixed_num_draft_tokens
        if fixed is not None and fixed > MAX_NUM_DRAFT_TOKENS:
            raise ConfigError(f"--num-draft-tokens is at most {MAX_NUM_DRAFT_TOKENS}, not {fixed}")
        if not 1 <= self.max_num_draft_tokens <= MAX_NUM_DRAFT_TOKENS:
            told = f"--max-num-draft-tokens is from 1 to {MAX_NUM_DRAFT_TOKENS}, not {self.max_num_draft_tokens}"
            raise ConfigError(f"{told}; --num-draft-tokens 0 serves without a draft")

    @property
    def fixed_num_draft_tokens(self) -> int | None:
        """K where it is fixed, None for auto. Raises ConfigError for anything else."""
        if self.num_draft_tokens == "auto":
            return None
        if not self.num_draft_tokens.isdecimal():
            raise ConfigError(f"--num-draft-tokens is 'auto' or a number, not {self.num_draft_tokens!r}")
        return int(self.num_draft_tokens)
