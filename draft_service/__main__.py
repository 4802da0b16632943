"""Runs the draft service: `python -m draft_service`."""

import sys
from collections.abc import Callable, Sequence

import grpc

from draft_service import servicer
from draft_service.config import DraftConfig
from draft_service.methods import METHODS, Method
from forerun import config as settings
from forerun import registry
from forerun.errors import ForerunError
from forerun.serving import process
from forerun.telemetry.metrics import ServiceMetrics
from forerun.telemetry.tracing import Tracing


class DraftWork:
    """A drafting method and its servicer."""

    def __init__(self, method: Method) -> None:
        self._method = method

    def start(self) -> None:
        self._method.start()

    def stop(self) -> None:
        self._method.stop()

    def heartbeat_age_s(self) -> float:
        return self._method.heartbeat_age_s()

    def add_to(self, server: grpc.aio.Server) -> None:
        servicer.add_to(server, self._method)


def build(
    config: DraftConfig, metrics: ServiceMetrics, tracing: Tracing, on_device_fault: Callable[[Exception], None]
) -> DraftWork:
    """Creates the drafting method that the flags name."""
    create = registry.load(METHODS, config.method, "drafting method")
    return DraftWork(create(config, metrics, tracing, on_device_fault))


def main(argv: Sequence[str]) -> int:
    """Runs until stopped; returns the exit status."""
    try:
        config = settings.parse(DraftConfig, argv, "draft_service")
    except ForerunError as error:
        sys.stderr.write(f"draft: {error}\n")
        return 2
    return process.run(
        "draft",
        "forerun.v1.DraftService",
        config,
        config.port,
        config.metrics_port,
        lambda *parts: build(config, *parts),
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
