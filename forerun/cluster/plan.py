"""From the flags of `forerun ray up` to two pools: what a replica runs, what it needs, how many there may be."""

import shlex
from dataclasses import dataclass
from itertools import chain

from forerun.cluster.config import RayConfig
from forerun.errors import ConfigError
from forerun.up.drafting import draft_flags, draft_for


@dataclass(frozen=True)
class PoolPlan:
    """Replicas that are alike. module_args follow `python -m` in each rank; cpus and gpus are a rank's."""

    name: str
    module_args: tuple[str, ...]
    num_ranks: int
    cpus: float
    gpus: float
    fewest: int
    most: int

    @property
    def is_held_back(self) -> bool:
        """Whether gateways send no more sequences here than it runs, and keep the rest, so that no queue is seen."""
        return self.name == "target"

    @property
    def bundle(self) -> dict[str, float]:
        """What a rank takes, as Ray counts it."""
        return {"CPU": self.cpus, **({"GPU": self.gpus} if self.gpus else {})}


def make_plan(config: RayConfig) -> tuple[PoolPlan, PoolPlan]:
    """The pool of targets and that of drafts. Raises ConfigError for numbers that no cluster could satisfy."""
    for flag, cpus in (("--target-cpus", config.target_cpus), ("--draft-cpus", config.draft_cpus)):
        if cpus <= 0:
            raise ConfigError(f"{flag} is above 0: a replica that takes nothing cannot be placed")
    return _targets(config), _drafts(config)


def _targets(config: RayConfig) -> PoolPlan:
    flags = ["--model", config.model, *_device(config.target_gpus), *shlex.split(config.target_args)]
    if config.tensor_parallel > 1:
        flags += ["--tensor-parallel", str(config.tensor_parallel)]
    most = max(config.targets, config.max_targets)
    return PoolPlan(
        "target",
        ("target_service", *flags),
        config.tensor_parallel,
        config.target_cpus,
        config.target_gpus,
        config.targets,
        most,
    )


def _drafts(config: RayConfig) -> PoolPlan:
    what = draft_flags(config.model, draft_for(config.model, config.draft_model))
    flags = [*chain.from_iterable(what.items()), *_device(config.draft_gpus), *shlex.split(config.draft_args)]
    most = max(config.drafts, config.max_drafts)
    return PoolPlan(
        "draft", ("draft_service", *flags), 1, config.draft_cpus, config.draft_gpus, config.drafts, most
    )  # fmt: skip


def _device(gpus: float) -> list[str]:
    return ["--device", "cuda"] if gpus else []
