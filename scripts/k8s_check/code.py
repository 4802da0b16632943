"""What the code has: programs with their flags, paths, health services, metrics, names of environment variables."""

import argparse
import ast
import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

from prometheus_client import CollectorRegistry

from draft_service.config import DraftConfig
from forerun import cli, errors
from forerun.cluster.config import RayConfig
from forerun.config import add_options
from forerun.errors import ConfigError
from forerun.models.fetch import FetchConfig
from forerun.telemetry.metrics import GatewayMetrics, ServiceMetrics, new_registry
from gateway.api import errors as api_errors
from gateway.api.freshness import Freshness
from gateway.config import GatewayConfig
from target_service.config import TargetConfig

CONFIGS: Mapping[str, type[Any]] = {
    "gateway": GatewayConfig,
    "draft": DraftConfig,
    "target": TargetConfig,
    "fetch": FetchConfig,
    "ray up": RayConfig,
}
SERVICES = ("gateway", "draft", "target")
# What libraries read, by their own documentation.
LIBRARY_ENV = frozenset({"HOME", "HF_TOKEN", "HF_ENDPOINT", "SSL_CERT_FILE", "OTEL_RESOURCE_ATTRIBUTES"})
SOURCES = ("forerun", "draft_service", "target_service", "gateway")


def is_command(name: str) -> bool:
    """Whether `forerun NAME` runs."""
    return name in cli.SERVICES or name in cli.TOOLS


def env_names(program: str) -> frozenset[str]:
    """The FORERUN_* variables that are flags of a program."""
    return frozenset("FORERUN_" + field.name.upper() for field in fields(CONFIGS[program]))


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ConfigError(message)


def settings(program: str, argv: Sequence[str], environ: Mapping[str, str]) -> Any:
    """The settings that a program makes of flags and environment. Raises ConfigError where it would not start."""
    parser = _Parser(allow_abbrev=False, add_help=False)
    add_options(parser, CONFIGS[program], environ)
    return CONFIGS[program](**vars(parser.parse_args(list(argv))))


def health_service(program: str) -> str:
    """What a gRPC probe asks for."""
    return f"forerun.v1.{program.capitalize()}Service"


def serving_ports(program: str, config: Any) -> dict[str, int]:
    """Port name → the port that it listens on, off ones left out."""
    if program == "gateway":
        known = {"http": config.http_port, "grpc": config.grpc_port}
    else:
        known = {"grpc": config.port, "metrics": config.metrics_port}
    known["health"] = getattr(config, "health_port", 0)
    return {name: port for name, port in known.items() if port}


def ready_probe_s() -> float:
    """How long the gateway's /ready may take to answer."""
    return float(inspect.signature(Freshness).parameters["probe_timeout_s"].default)


@cache
def paths(root: Path) -> frozenset[str]:
    """What the gateway's REST application serves."""
    return frozenset(text for text in _strings(root / "gateway" / "app.py") if text.startswith("/"))


def error_names() -> frozenset[str]:
    """Our errors, by which failed requests are counted."""
    found = [each for module in (errors, api_errors) for each in vars(module).values() if isinstance(each, type)]
    return frozenset(each.__name__ for each in found if issubclass(each, Exception))


@cache
def source_strings(root: Path) -> frozenset[str]:
    """Every string literal of the services' code: a variable that is read stands among them."""
    files = (path for package in SOURCES for path in sorted((root / package).rglob("*.py")))
    return frozenset(text for path in files for text in _strings(path))


def _strings(path: Path) -> list[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)]


# What a scrape appends to a metric's name, by its type; the process's own have none.
_SUFFIXES: Mapping[str, tuple[str, ...]] = {
    "counter": ("_total",),
    "histogram": ("_bucket", "_count", "_sum"),
    "gauge": ("",),
    "": ("",),
}


@dataclass(frozen=True)
class Metric:
    """A name that a scrape has, and its labels."""

    name: str
    labels: frozenset[str]


@cache
def metrics(service: str) -> dict[str, Metric]:
    """Every series name of a service."""
    registry = new_registry(service)
    GatewayMetrics(registry) if service == "gateway" else ServiceMetrics(registry, service)
    return {name: Metric(name, labels) for name, labels in _series(registry)}


def _series(registry: CollectorRegistry) -> list[tuple[str, frozenset[str]]]:
    # Read off the registry, not off a scrape, in which labelled metrics are only once they have counted.
    found = []
    for name, collector in registry._names_to_collectors.items():
        if name.endswith(_SUFFIXES[getattr(collector, "_type", "")]):
            labels = {*getattr(collector, "_labelnames", ()), *(["le"] if name.endswith("_bucket") else [])}
            found.append((name, frozenset(labels)))
    return found
