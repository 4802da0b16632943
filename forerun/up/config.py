"""The flags of `forerun up`."""

from dataclasses import dataclass

from forerun.config import option
from forerun.models.bundled import DRAFT_NAME, NAME

PRECISIONS = ("auto", "bf16", "int8", "int4", "fp8", "fp32")


@dataclass(frozen=True)
class UpConfig:
    """Serve a model on this machine: draft, target and gateway."""

    model: str = option(NAME, "model to serve: its name, a model folder or a hub id")
    draft_model: str = option("", f"model that drafts; without one {DRAFT_NAME} for {NAME}, prompt lookup for others")
    host: str = option("127.0.0.1", "address to listen on")
    http_port: int = option(8000, "port of the REST API")
    grpc_port: int = option(50050, "port of the gateway's gRPC API")
    draft_port: int = option(50051, "port of the draft")
    target_port: int = option(50052, "port of the target")
    draft_metrics_port: int = option(9051, "port of the draft's /metrics")
    target_metrics_port: int = option(9052, "port of the target's /metrics")
    precision: str = option(
        "auto",
        "the target's weights: bf16, int8, int4, fp8 or fp32; auto is bf16 or int8, the faster of them here",
        PRECISIONS,
    )
    draft_precision: str = option(
        "auto", "the draft's weights: how much is accepted hangs on them, never the law of what comes out", PRECISIONS
    )
    compile: str = option(
        "auto", "compile the models for this CPU at the first start; auto does where it can", ("auto", "on", "off")
    )
    start_timeout_s: float = option(900.0, "how long the services may take to produce a first token")
