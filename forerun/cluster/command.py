"""The `forerun ray` command."""

import asyncio
import signal
import sys
from collections.abc import Sequence
from typing import Any

from forerun.cluster.config import ClusterConfig, RayConfig
from forerun.cluster.fleet import Fleet
from forerun.cluster.plan import make_plan
from forerun.cluster.ray_cluster import RayCluster, connect
from forerun.cluster.registry import Registry
from forerun.config import parse
from forerun.errors import ConfigError
from forerun.telemetry import logs

USAGE = """usage: forerun ray up|down [--help] [flags]

  up       place drafts and targets on a Ray cluster and keep them running
  down     stop what `forerun ray up --keep` left running
"""
_STOP_S = 60.0


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
    make_plan(config)
    logs.setup_logging("ray", "INFO", "text")
    return asyncio.run(serve(config, connect(config)))


def _down(config: ClusterConfig) -> int:
    return asyncio.run(_stop_all(connect(config)))


async def serve(config: RayConfig, cluster: RayCluster) -> int:
    """Keeps the fleet until SIGTERM or SIGINT, then ends it or, with --keep, lets it go.

    Raises what the supervisor itself failed with; replicas are let go then.
    """
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for signum in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(signum, stop.set)
    fleet = Fleet(config, cluster)
    await fleet.start()
    # Only now: gateways drop whatever a list that answers does not name.
    registry = Registry(config.registry_host, config.registry_port, fleet.lists, fleet.metrics)
    where = f"--target {registry.url}/targets --draft {registry.url}/drafts"
    sys.stdout.write(f"Gateways find the replicas: forerun gateway --model {config.model} {where}\n")
    sys.stdout.write(f"Prometheus finds their metrics: http_sd_configs: [{{url: {registry.metrics_url}}}]\n")
    sys.stdout.flush()
    stopped: asyncio.Future[Any] = asyncio.ensure_future(stop.wait())
    keeping: asyncio.Future[Any] = asyncio.gather(fleet.scale(), fleet.renew())
    await asyncio.wait({stopped, keeping}, return_when=asyncio.FIRST_COMPLETED)
    broken = keeping.done()
    keeping.cancel()
    if config.keep or broken:
        registry.close()
        await fleet.let_go()
    else:
        await fleet.drain()
        registry.close()
    if broken:
        await keeping
    return 0


async def _stop_all(cluster: RayCluster) -> int:
    lives = [*cluster.lives("target"), *cluster.lives("draft")]
    stopping = [life.ranks[0].stop.remote(_STOP_S) for life in lives]
    await asyncio.gather(*stopping, return_exceptions=True)
    for life in lives:
        cluster.remove(life)
    cluster.remove_groups()
    sys.stdout.write(f"{len(lives)} replicas stopped\n")
    return 0
