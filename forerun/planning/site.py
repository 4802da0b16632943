"""One target replica with its share of drafts: what a plan multiplies."""

from dataclasses import dataclass
from typing import Literal

from forerun.engine.budget import MAX_STRETCH
from forerun.errors import ConfigError
from forerun.planning.steps import Steps

Layout = Literal["alone", "co-located", "split"]
Turns = Literal["shifts", "together"]


@dataclass(frozen=True)
class Links:
    """Seconds of a whole exchange between gateway and service, on the network alone."""

    target_rtt_s: float = 0.0
    draft_rtt_s: float = 0.0


@dataclass(frozen=True)
class Engine:
    """A service's loop: the most prompt rows of a step, and by how much they may stretch one that decodes.

    turns: a target's step takes whoever is there, as our engine's does, so that sequences come in shifts; or it waits
    until all proposals are there, as engines do that speculate in one process.
    """

    max_chunk: int = 512
    stretch: float = MAX_STRETCH
    turns: Turns = "shifts"


@dataclass(frozen=True)
class Site:
    """A layout. k: drafted tokens of each round, 0 where there is no draft.

    targets_per_draft: target replicas that share one draft; below 1, drafts that share one target replica.
    """

    target: Steps
    draft: Steps | None
    k: int
    layout: Layout
    targets_per_draft: float = 1.0
    links: Links = Links()
    engine: Engine = Engine()

    def __post_init__(self) -> None:
        if (self.layout == "alone") != (self.k == 0) or (self.k > 0 and self.draft is None):
            raise ConfigError(f"{self.layout} with K = {self.k} is no layout")
        if self.targets_per_draft <= 0:
            raise ConfigError(f"{self.targets_per_draft:g} targets a draft is no share")

    @property
    def target_trip_s(self) -> float:
        """An exchange with the target beyond its step."""
        return self.target.device.trip_s + self.links.target_rtt_s

    @property
    def draft_trip_s(self) -> float:
        """An exchange with the draft beyond its steps; beside the target it is as far as the target is."""
        if self.draft is None:
            return 0.0
        rtt_s = self.links.draft_rtt_s if self.layout == "split" else self.links.target_rtt_s
        return self.draft.device.trip_s + rtt_s

    @property
    def usd_per_h(self) -> float:
        """Of one target replica and its share of drafts."""
        usd = self.target.num_devices * self.target.device.usd_per_h
        if self.layout == "split" and self.draft is not None:
            usd += self.draft.num_devices * self.draft.device.usd_per_h / self.targets_per_draft
        return usd

    def max_sequences(self, context_len: float) -> float:
        """Sequences of this context that a target replica's share of memory holds, here and at the draft."""
        target_kv = context_len * self.target.shape.kv_bytes(self.target.kv_precision)
        if self.draft is None or self.layout == "alone":
            return self.target.free_memory / target_kv
        draft_kv = context_len * self.draft.shape.kv_bytes(self.draft.kv_precision)
        if self.layout == "co-located":
            return (self.target.free_memory - self.draft.weight_bytes) / (target_kv + draft_kv)
        return min(self.target.free_memory / target_kv, self.draft.free_memory / draft_kv / self.targets_per_draft)
