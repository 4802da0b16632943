"""Runs the target service: `python -m target_service`."""

import sys
from collections.abc import Callable, Sequence

import grpc

from forerun import config as settings
from forerun.errors import ConfigError, ForerunError
from forerun.models import resolve
from forerun.models.tokenizer_files import read_model_text
from forerun.serving import process
from forerun.serving.model_service import ModelService
from forerun.serving.start import build_engine
from forerun.telemetry.metrics import ServiceMetrics
from forerun.telemetry.tracing import Tracing
from target_service import servicer
from target_service.config import TargetConfig


class TargetWork:
    """The engine and its servicer."""

    def __init__(self, service: ModelService) -> None:
        self._service = service

    def start(self) -> None:
        self._service.engine.loop.start()

    def stop(self) -> None:
        self._service.engine.loop.stop()

    def heartbeat_age_s(self) -> float:
        return self._service.engine.loop.heartbeat_age_s

    def add_to(self, server: grpc.aio.Server) -> None:
        servicer.add_to(server, self._service)


def build(
    config: TargetConfig, metrics: ServiceMetrics, tracing: Tracing, on_device_fault: Callable[[Exception], None]
) -> TargetWork:
    """Loads the target. Raises ConfigError where its head is narrower than its tokenizer's vocabulary."""
    folder = resolve.resolve(config.model)
    text = read_model_text(folder)
    engine = build_engine(config, folder, config.model, metrics, tracing, on_device_fault)
    width = engine.model.head_size
    if width < text.vocab_size:
        raise ConfigError(f"the head of {config.model} has {width} rows, its tokenizer {text.vocab_size} ids")
    return TargetWork(ModelService(resolve.public_name(config.model), engine, text, metrics, tracing))


def main(argv: Sequence[str]) -> int:
    """Runs until stopped; returns the exit status."""
    try:
        config = settings.parse(TargetConfig, argv, "target_service")
    except ForerunError as error:
        sys.stderr.write(f"target: {error}\n")
        return 2
    return process.run(
        "target",
        "forerun.v1.TargetService",
        config,
        config.port,
        config.metrics_port,
        lambda *parts: build(config, *parts),
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
