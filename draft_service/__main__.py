"""Runs the draft service: `python -m draft_service`."""

import sys
from collections.abc import Sequence
from functools import partial

from draft_service import servicer
from draft_service.config import DraftConfig
from draft_service.methods import METHODS, DeviceFault, Method
from forerun import registry
from forerun.serving import process
from forerun.serving.process import Work
from forerun.telemetry.metrics import ServiceMetrics
from forerun.telemetry.tracing import Tracing


def build(config: DraftConfig, metrics: ServiceMetrics, tracing: Tracing, on_device_fault: DeviceFault) -> Work:
    """Creates the drafting method that the flags name."""
    create = registry.load(METHODS, config.method, "drafting method")
    method: Method = create(config, metrics, tracing, on_device_fault)
    return Work(method, partial(servicer.add_to, method=method))


def main(argv: Sequence[str]) -> int:
    """Runs until stopped; returns the exit status."""
    return process.main("draft", DraftConfig, build, argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
