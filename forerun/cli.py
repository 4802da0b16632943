"""The `forerun` command: runs the services as `python -m …` would, and the tools around them."""

import runpy
import sys
from collections.abc import Sequence

from forerun import __version__
from forerun.errors import ConfigError
from forerun.registry import load

SERVICES = {"draft": "draft_service", "target": "target_service", "gateway": "gateway"}
TOOLS = {
    "up": "forerun.up.command:main",
    "chat": "forerun.chat:main",
    "bench": "forerun.bench.command:main",
    "fetch": "forerun.models.fetch:main",
    "distill": "forerun.training.command:main",
    "plan": "forerun.planning.command:main",
    "ray": "forerun.cluster.command:main",
}
_SUMMARIES = {
    "up": "serve a model on this machine: draft, target and gateway",
    "draft": "run the draft service",
    "target": "run the target service",
    "gateway": "run the gateway",
    "chat": "talk to a running gateway",
    "bench": "measure a running gateway, with and without speculation",
    "fetch": "bring a model into a folder and verify it",
    "distill": "make a draft for a model",
    "plan": "how many replicas a workload needs, and what they cost",
    "ray": "serve with many drafts and targets on a Ray cluster",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the named command; returns the exit status."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    name = arguments.pop(0) if arguments else "--help"
    if name in ("-h", "--help"):
        print(usage())
        return 0
    if name == "--version":
        print(__version__)
        return 0
    try:
        return run(name, arguments)
    except ConfigError as error:
        print(f"forerun {name}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


def run(name: str, arguments: list[str]) -> int:
    """Runs a service as the main module, or a tool. Raises ConfigError for a name that is neither."""
    if name in SERVICES:
        sys.argv = [f"forerun {name}", *arguments]
        runpy.run_module(SERVICES[name], run_name="__main__", alter_sys=True)
        return 0
    if name not in TOOLS:
        raise ConfigError(f"unknown command {name!r}; known: {', '.join(_SUMMARIES)}")
    return int(load(TOOLS, name, "command")(arguments))


def usage() -> str:
    """One line a command."""
    lines = [f"  {name:<8} {summary}" for name, summary in _SUMMARIES.items()]
    return "\n".join(["usage: forerun COMMAND [--help] [flags]", "", *lines])


if __name__ == "__main__":
    sys.exit(main())
