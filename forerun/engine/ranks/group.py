"""Joins the ranks: torch.distributed for what layers exchange, lines for orders."""

from dataclasses import dataclass
from datetime import timedelta

import torch
from torch import distributed
from torch._C._distributed_c10d import PrefixStore, Store
from torch.distributed.rendezvous import rendezvous

from forerun.engine.ranks.lines import JOIN_S, Following, Leading, OnLost
from forerun.engine.ranks.place import Place
from forerun.errors import ServiceUnavailable

_INVITATION = "forerun/orders"


@dataclass(frozen=True, slots=True)
class Ranks:
    """This process's place among them, and its line: Leading at rank 0, Following elsewhere."""

    place: Place
    device: torch.device
    line: Leading | Following

    def least(self, number: int) -> int:
        """The smallest of what all ranks give; all call it at the same time."""
        shared = torch.tensor(number, device=self.device)
        distributed.all_reduce(shared, distributed.ReduceOp.MIN)
        return int(shared)


def join(place: Place, device: str, on_lost: OnLost) -> Ranks:
    """Returns once all ranks are there. Raises ServiceUnavailable where they are not in time."""
    here = torch.device(device, place.local_rank) if device == "cuda" else torch.device(device)
    if here.type == "cuda":
        torch.cuda.set_device(here)
    try:
        store, _, _ = next(iter(rendezvous("env://", timeout=timedelta(seconds=JOIN_S))))
        line = _line(store, place, on_lost)
        distributed.init_process_group(
            "nccl" if here.type == "cuda" else "gloo",
            store=PrefixStore("forerun/layers", store),
            rank=place.rank,
            world_size=place.size,
            device_id=here if here.type == "cuda" else None,
        )
    except (distributed.DistError, OSError) as error:
        raise ServiceUnavailable(f"rank {place.rank} of {place.size} cannot join the others: {error}") from error
    return Ranks(place, here, line)


def _line(store: Store, place: Place, on_lost: OnLost) -> Leading | Following:
    if place.rank:
        invitation = store.get(_INVITATION).decode()
        return Following(place.leader, place.rank, invitation, on_lost)
    leading = Leading(place.leader, place.size, on_lost)
    store.set(_INVITATION, leading.invitation)
    leading.wait_for_all()
    return leading
