"""The flags of `forerun ray`."""

from dataclasses import dataclass

from forerun.config import option
from forerun.errors import ConfigError
from forerun.models.bundled import DRAFT_NAME, NAME


@dataclass(frozen=True)
class ClusterConfig:
    """Which Ray cluster, and which of the fleets in it."""

    address: str = option("auto", "the Ray cluster: auto finds this node's, HOST:PORT, or local starts one")
    namespace: str = option("forerun", "Ray namespace of the fleet; another one is another fleet")


@dataclass(frozen=True)
class RayConfig(ClusterConfig):
    """Serve with drafts and targets on a Ray cluster."""

    model: str = option(NAME, "model to serve: its name, a model folder on every node, or a hub id")
    draft_model: str = option("", f"model that drafts; without one {DRAFT_NAME} for {NAME}, prompt lookup for others")
    targets: int = option(1, "target replicas, and the fewest that there are")
    drafts: int = option(1, "draft replicas, and the fewest that there are")
    max_targets: int = option(0, "most target replicas where places run out; 0 is --targets")
    max_drafts: int = option(0, "most draft replicas where sequences queue up; 0 is --drafts")
    tensor_parallel: int = option(1, "ranks of a target replica, placed as near each other as there is room")
    target_cpus: float = option(1.0, "CPUs of a target's rank")
    draft_cpus: float = option(1.0, "CPUs of a draft")
    target_gpus: float = option(0.0, "GPUs of a target's rank; 0 runs it on the CPU")
    draft_gpus: float = option(0.0, "GPUs of a draft; 0 runs it on the CPU")
    target_args: str = option("", "more flags for every target, as in `forerun target --help`")
    draft_args: str = option("", "more flags for every draft, as in `forerun draft --help`")
    scale_up_queue: float = option(4.0, "waiting sequences a replica from which one more replica is started")
    scale_down_running: float = option(4.0, "sequences a remaining replica up to which one replica is taken away")
    scale_every_s: float = option(10.0, "seconds between two looks at the load")
    registry_host: str = option("127.0.0.1", "address of the list of replicas that gateways read")
    registry_port: int = option(50055, "its port: gateways take --target http://HOST:PORT/targets and …/drafts")
    start_timeout_s: float = option(900.0, "how long a replica may take from its placement to its first answer")
    drain_timeout_s: float = option(60.0, "how long a replica that is to end may take; its own --grace-s comes first")
    keep: bool = option(False, "leave the replicas running when told to stop; the next up takes them over")

    def __post_init__(self) -> None:
        """Raises ConfigError for a fleet without a target."""
        if self.targets < 1 or self.drafts < 0 or self.tensor_parallel < 1:
            raise ConfigError("--targets and --tensor-parallel are at least 1, --drafts at least 0")
