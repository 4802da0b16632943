"""Which rank a process is, as torchrun and everything like it says in the environment."""

from collections.abc import Mapping
from dataclasses import dataclass

from forerun.errors import ConfigError

NAMES = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


@dataclass(frozen=True, slots=True)
class Place:
    """Rank `rank` of `size`; local_rank counts those on this host. leader: the host of rank 0."""

    rank: int
    size: int
    local_rank: int
    leader: str

    @classmethod
    def of(cls, environ: Mapping[str, str], size: int) -> "Place":
        """Raises ConfigError for an environment that does not say it, or says another size."""
        missing = [name for name in NAMES if name not in environ]
        if missing:
            how = f"torchrun --nproc-per-node {size} -m target_service --tensor-parallel {size}"
            raise ConfigError(f"--tensor-parallel {size} needs {', '.join(missing)} for each rank; `{how} …` sets them")
        rank, world = (_number(environ, name) for name in ("RANK", "WORLD_SIZE"))
        if world != size or rank >= size:
            raise ConfigError(f"RANK={rank} WORLD_SIZE={world} is no rank of --tensor-parallel {size}")
        local = _number(environ, "LOCAL_RANK") if "LOCAL_RANK" in environ else rank
        return cls(rank, size, local, environ["MASTER_ADDR"])


def _number(environ: Mapping[str, str], name: str) -> int:
    if not environ[name].isdecimal():
        raise ConfigError(f"{name}={environ[name]!r} is not a number")
    return int(environ[name])
