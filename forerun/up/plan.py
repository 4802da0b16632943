"""From the flags of `forerun up` to the three services to run, and the checks that come before them."""

import socket
from dataclasses import dataclass

from forerun.engine.cores import num_cores
from forerun.errors import ConfigError
from forerun.models.resolve import public_name
from forerun.up.child import ENVIRON, Service
from forerun.up.config import UpConfig
from forerun.up.drafting import draft_flags, draft_for

DRAFTS_SHARE = 0.25
"""Of the cores: on a second thread of two a draft step takes 0.7 of its time, and both of the target's lose theirs."""


@dataclass(frozen=True)
class Plan:
    """The services, models first, and the names that people read."""

    draft: Service
    target: Service
    gateway: Service
    model: str
    draft_model: str


def make_plan(config: UpConfig) -> Plan:
    """The commands for one draft, one target and one gateway that know each other's addresses."""
    draft_model = draft_for(config.model, config.draft_model)
    return Plan(
        draft=_service("draft", config.draft_port, _draft_flags(config, draft_model)),
        target=_service("target", config.target_port, _target_flags(config)),
        gateway=_service("gateway", config.http_port, _gateway_flags(config)),
        model=public_name(config.model),
        draft_model=public_name(draft_model) if draft_model else "prompt lookup (ngram)",
    )


def check_ports(config: UpConfig) -> None:
    """Raises ConfigError, naming the flag, for a port that is given twice or that another program holds."""
    ports = {name: port for name, port in vars(config).items() if name.endswith("_port")}
    for name, port in ports.items():
        flag = _flag(name)
        twins = [_flag(other) for other in ports if ports[other] == port and other != name]
        if twins:
            raise ConfigError(f"{flag} and {twins[0]} are both {port}; give them different ports")
        if _is_taken(config.host, port):
            raise ConfigError(f"port {port} on {config.host} is in use; choose another with {flag}")


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def _is_taken(host: str, port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return True
    return False


def _service(name: str, port: int, flags: dict[str, str | int]) -> Service:
    arguments = [text for flag, value in flags.items() for text in (flag, str(value))]
    module = name if name == "gateway" else f"{name}_service"
    return Service(name, [module, *arguments], port, ENVIRON)


def _draft_flags(config: UpConfig, draft_model: str) -> dict[str, str | int]:
    return {
        **draft_flags(config.model, draft_model),
        "--host": config.host,
        "--port": config.draft_port,
        "--metrics-port": config.draft_metrics_port,
        "--precision": config.draft_precision,
        "--compile": config.compile,
        "--max-threads": max(1, int(DRAFTS_SHARE * num_cores())),
    }


def _target_flags(config: UpConfig) -> dict[str, str | int]:
    return {
        "--model": config.model,
        "--host": config.host,
        "--port": config.target_port,
        "--metrics-port": config.target_metrics_port,
        "--precision": config.precision,
        "--compile": config.compile,
    }


def _gateway_flags(config: UpConfig) -> dict[str, str | int]:
    return {
        "--model": config.model,
        "--served-model-name": public_name(config.model),
        "--host": config.host,
        "--http-port": config.http_port,
        "--grpc-port": config.grpc_port,
        "--draft-addresses": f"{config.host}:{config.draft_port}",
        "--target-addresses": f"{config.host}:{config.target_port}",
    }
