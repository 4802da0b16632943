"""The `forerun ray` command."""

import sys
from collections.abc import Sequence

from forerun.cluster.config import ClusterConfig, RayConfig
from forerun.config import parse
from forerun.errors import ConfigError

USAGE = """usage: forerun ray up|down [--help] [flags]

  up       place drafts and targets on a Ray cluster and keep them running
  down     stop what `forerun ray up --keep` left running
"""


def main(argv: Sequence[str]) -> int:
    """Runs the subcommand; returns the exit status. Raises ConfigError for one that is not known."""
    name, flags = (argv[0], argv[1:]) if argv else ("--help", [])
    if name in ("-h", "--help"):
        sys.stdout.write(USAGE)
        return 0
    if name == "up":
        return _up(parse(RayConfig, flags, "forerun ray up"))
    if name == "down":
        return _down(parse(ClusterConfig, flags, "forerun ray down"))
    raise ConfigError(f"{name!r} is neither up nor down")


def _up(config: RayConfig) -> int:
    raise ConfigError("not here yet")


def _down(config: ClusterConfig) -> int:
    raise ConfigError("not here yet")
