"""The `forerun up` command: prepare, start, show, watch, stop."""

import asyncio
import signal
import subprocess
import sys
from collections.abc import Sequence

from rich.console import Console

from forerun.config import parse
from forerun.errors import ForerunError
from forerun.models.bundled import NAME, is_prepared
from forerun.models.cache_folder import cache_folder
from forerun.models.resolve import BUNDLED, resolve
from forerun.up import readiness
from forerun.up.config import UpConfig
from forerun.up.display import ConsoleDisplay, address_table, rest_url
from forerun.up.plan import Plan, check_ports, make_plan
from forerun.up.supervisor import Supervisor


def main(argv: Sequence[str]) -> int:
    """Serves until it is told to stop; returns the exit status."""
    config = parse(UpConfig, argv, "forerun up")
    check_ports(config)
    prepare(config)
    return asyncio.run(run(config, make_plan(config), Console()))


def prepare(config: UpConfig) -> None:
    """Has the models in folders, so that three services do not fetch or convert at once. Raises ConfigError."""
    if config.model in (BUNDLED, NAME) and not is_prepared():
        # In a process of its own, whose memory is given back.
        subprocess.run([sys.executable, "-m", "forerun.models.bundled"], check=True)
    for model in (config.model, config.draft_model):
        if model:
            resolve(model)


async def run(config: UpConfig, plan: Plan, console: Console) -> int:
    """Starts the services, shows where they are, and stops them when a signal comes or one of them fails."""
    serving = asyncio.ensure_future(_serve(config, plan, console))
    loop = asyncio.get_running_loop()
    for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(signum, serving.cancel)
    try:
        await serving
    except asyncio.CancelledError:
        return 0
    except ForerunError as error:
        console.print(str(error), style="red", markup=False, highlight=False, soft_wrap=True)
    return 1


async def _serve(config: UpConfig, plan: Plan, console: Console) -> None:
    logs = cache_folder("logs")
    display = ConsoleDisplay(console)
    supervisor = Supervisor(display, logs)
    try:
        with display:
            await _start(config, plan, supervisor)
        console.print(address_table(config, plan, logs))
        console.print("Ctrl-C stops all of them.")
        await supervisor.watch(restarted="draft")
    finally:
        display.note("Stopping")
        await supervisor.stop()


async def _start(config: UpConfig, plan: Plan, supervisor: Supervisor) -> None:
    for service in (plan.target, plan.draft):
        await supervisor.start(service)
    timeout_s, host = config.start_timeout_s, config.host
    once = "" if config.compile == "off" else " (the first time it is compiled for this CPU, which takes minutes)"
    await supervisor.until(readiness.listening(host, config.target_port), f"Loading {plan.model}{once}", timeout_s)
    await supervisor.until(readiness.listening(host, config.draft_port), f"Loading {plan.draft_model}{once}", timeout_s)
    await supervisor.start(plan.gateway)
    token = readiness.first_token(rest_url(config), plan.model)
    await supervisor.until(token, "Waiting for the first token", timeout_s)
