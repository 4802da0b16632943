"""A target whose ranks are processes of their own, started as torchrun would."""

from tests.support.ports import free_ports
from tests.support.processes import TINY


def start_ranks(fleet, model, size, *flags, precision=TINY):
    """The ranks in order; the first is the service."""
    shared = {"WORLD_SIZE": str(size), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_ports(1)[0])}
    command = ("target_service", "--model", model, "--tensor-parallel", size, *precision, *flags)
    return [fleet.start(*command, environ={**shared, "RANK": str(rank)}) for rank in range(size)]
