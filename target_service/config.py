"""The target's flags."""

from dataclasses import dataclass

from forerun.config import option
from forerun.serving.settings import ServiceConfig


@dataclass(frozen=True)
class TargetConfig(ServiceConfig):
    """The target service: verifies proposals and signs for every token."""

    model: str = option("SmolLM2-135M-Instruct", "the bundled model, a model folder, or a hub id")
    port: int = option(50052, "gRPC port")
    tensor_parallel: int = option(
        1, "ranks that share the model: so many processes, started as torchrun does, of which rank 0 serves"
    )
    metrics_port: int = option(9052, "port of /metrics; 0 is off")
