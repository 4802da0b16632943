"""The draft's flags."""

from dataclasses import dataclass

from forerun.config import option
from forerun.errors import ConfigError
from forerun.rpc.convert import MAX_SUPPORT
from forerun.serving.settings import ServiceConfig


@dataclass(frozen=True)
class DraftConfig(ServiceConfig):
    """The draft service: proposes tokens.

    Raises ConfigError for a support that no law has, or that the wire does not take.
    """

    model: str = option("draft-smollm2-135m", "the bundled draft, a model folder, or a hub id")
    target_model: str = option("SmolLM2-135M-Instruct", "whose embedding and tokenizer it takes where it has none")
    method: str = option("model", "drafting method: model or ngram", ("model", "ngram"))
    port: int = option(50051, "gRPC port")
    metrics_port: int = option(9051, "port of /metrics; 0 is off")
    memory_fraction: float = option(0.05, "share of the free memory for the KV cache")
    support: int = option(16, "tokens of the draft's law that are kept, drawn from and reported under rejection")
    ngram_min: int = option(2, "fewest tokens that must match (ngram)")
    ngram_max: int = option(4, "most tokens that are tried to match (ngram)")

    def __post_init__(self) -> None:
        if not 1 <= self.support <= MAX_SUPPORT:
            raise ConfigError(f"--support is 1 to {MAX_SUPPORT}, not {self.support}")
