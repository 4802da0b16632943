"""Runs the target service: `python -m target_service`."""

import sys
from collections.abc import Callable, Sequence
from functools import partial

from forerun.errors import ConfigError
from forerun.models import resolve
from forerun.models.tokenizer_files import read_model_text
from forerun.serving import process
from forerun.serving.model_service import ModelService
from forerun.serving.process import Work
from forerun.serving.start import build_engine
from forerun.telemetry.metrics import ServiceMetrics
from forerun.telemetry.tracing import Tracing
from target_service import servicer
from target_service.config import TargetConfig


def build(
    config: TargetConfig, metrics: ServiceMetrics, tracing: Tracing, on_device_fault: Callable[[Exception], None]
) -> Work:
    """Loads the target. Raises ConfigError where its head is narrower than its tokenizer's vocabulary."""
    folder = resolve.resolve(config.model)
    text = read_model_text(folder)
    engine = build_engine(config, folder, config.model, metrics, tracing, on_device_fault)
    width = engine.model.head_size
    if width < text.vocab_size:
        raise ConfigError(f"the head of {config.model} has {width} rows, its tokenizer {text.vocab_size} ids")
    service = ModelService(resolve.public_name(config.model), engine, text, metrics, tracing)
    return Work(service, partial(servicer.add_to, service=service))


def main(argv: Sequence[str]) -> int:
    """Runs until stopped; returns the exit status."""
    return process.main("target", TargetConfig, build, argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
