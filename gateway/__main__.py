"""Runs the gateway: `python -m gateway`."""

import sys
from collections.abc import Sequence

import uvloop

from forerun import config as settings
from forerun.errors import ForerunError
from forerun.telemetry import logs
from gateway.config import GatewayConfig
from gateway.process import serve


def main(argv: Sequence[str]) -> int:
    """Runs until stopped; returns the exit status, with a start-up error as one line on stderr."""
    try:
        config = settings.parse(GatewayConfig, argv, "gateway")
        logs.setup_logging("gateway", config.log_level, config.log_format, config.log_content)  # type: ignore[arg-type]
        return uvloop.run(serve(config))
    except ForerunError as error:
        sys.stderr.write(f"gateway: {error}\n")
        return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
