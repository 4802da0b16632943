"""Services whose model is shared by several processes: rank 0 serves, the others follow it."""

import logging
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from forerun import config as settings
from forerun.engine import build
from forerun.engine.ranks import group
from forerun.engine.ranks.follower import follow as follow_line
from forerun.engine.ranks.group import Ranks
from forerun.engine.ranks.lines import Following
from forerun.engine.ranks.place import Place
from forerun.errors import ConfigError, ForerunError
from forerun.serving import allocator, start
from forerun.serving.settings import ServiceConfig
from forerun.telemetry import logs

log = logging.getLogger(__name__)

C = TypeVar("C", bound=ServiceConfig)


def is_follower(environ: Mapping[str, str]) -> bool:
    """Whether the environment makes this process another rank than the first."""
    return environ.get("RANK", "0") != "0"


def join(num_ranks: int, device: str) -> Ranks | None:
    """This process among the ranks, once all are there; None where it is alone.

    From then on the process ends, and says why, as soon as a rank is gone that it depends on.
    """
    if num_ranks == 1:
        return None
    return group.join(Place.of(os.environ, num_ranks), device, _end)


def follow(config: ServiceConfig, folder: Path, model_id: str, ranks: Ranks | None) -> None:
    """Computes this rank's part of every step; returns when rank 0 stops. Signals are left to rank 0, which drains."""
    if ranks is None or not isinstance(ranks.line, Following):
        raise ConfigError(f"RANK={os.environ['RANK']} and --tensor-parallel 1 do not fit")
    for signum in (signal.SIGTERM, signal.SIGINT):
        signal.signal(signum, signal.SIG_IGN)
    part = build.build_part(start.prepare(config, folder, model_id, ranks=ranks))
    log.info("rank %d follows on %s", ranks.place.rank, part.label)
    follow_line(part.runner, ranks.line)


def main(name: str, config_type: type[C], work: Callable[[C], None], argv: Sequence[str]) -> int:
    """Runs a following rank; returns its exit status."""
    allocator.keep_freed_memory()
    try:
        config = settings.parse(config_type, argv, f"{name}_service")
        logs.setup_logging(name, config.log_level, config.log_format)  # type: ignore[arg-type]
        work(config)
    except ForerunError as error:
        sys.stderr.write(f"{name}: {error}\n")
        return 2
    return 0


def _end(error: ForerunError) -> None:
    """At once: the device thread may hang in a collective for ever, and other replicas wait for the sequences."""
    log.critical("%s", error)
    sys.stderr.flush()
    os._exit(1)
