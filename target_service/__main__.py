"""Runs the target service: `python -m target_service`."""

import os
import sys
from collections.abc import Callable, Sequence
from functools import partial

from forerun.errors import ConfigError
from forerun.models import resolve
from forerun.models.tokenizer_files import read_model_text
from forerun.serving import process, rank
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
    ranks = rank.join(config.tensor_parallel, config.device)
    engine = build_engine(config, folder, config.model, metrics, tracing, on_device_fault, ranks=ranks)
    width = engine.model.head_size
    if width < text.vocab_size:
        raise ConfigError(f"the head of {config.model} has {width} rows, its tokenizer {text.vocab_size} ids")
    service = ModelService(resolve.public_name(config.model), engine, text, metrics, tracing)
    return Work(service, partial(servicer.add_to, service=service))


def follow(config: TargetConfig) -> None:
    """A rank that serves nobody itself: computes its part of the target until rank 0 ends."""
    folder = resolve.resolve(config.model)
    rank.follow(config, folder, config.model, rank.join(config.tensor_parallel, config.device))


def main(argv: Sequence[str]) -> int:
    """Runs until stopped; returns the exit status."""
    if rank.is_follower(os.environ):
        return rank.main("target", TargetConfig, follow, argv)
    return process.main("target", TargetConfig, build, argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
