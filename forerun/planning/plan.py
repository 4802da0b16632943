"""From the flags of `forerun plan` to the three layouts side by side."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast, get_args

from forerun.cost.pace import Pace
from forerun.errors import ConfigError
from forerun.planning.config import PlanConfig
from forerun.planning.formula import Formula
from forerun.planning.hardware import Device, find_device
from forerun.planning.models import find_model
from forerun.planning.simulation import Simulated, simulate
from forerun.planning.site import Engine, Layout, Links, Site, Turns
from forerun.planning.sizing import MAX_K, SHARES, Option, Sizer, for_one_stream
from forerun.planning.steps import Steps
from forerun.planning.workload import Goals, Workload, parse_acceptance

MIN_REQUESTS = 20
LEAST_SURVIVAL = 0.05  # a token that is reached and right more rarely is not worth a look
LAYOUTS: tuple[Layout, ...] = get_args(Layout)


@dataclass(frozen=True)
class Answer:
    """One layout. option: None where no number of replicas meets the goals; the rest: with nobody else there."""

    layout: Layout
    option: Option | None
    one_stream: Pace
    one_stream_tokens_per_s: float
    least_ttft_s: float


class Planner:
    """The flags, understood. Raises ConfigError, naming what is wrong, for what cannot be planned."""

    def __init__(self, config: PlanConfig) -> None:
        self._config = config
        self.workload = Workload(
            rate=config.rate,
            prompt_len=config.prompt_len,
            answer_len=config.answer_len,
            acceptance=parse_acceptance(config.acceptance),
            length_cv=config.length_cv,
        )
        self.goals = Goals(config.ttft_ms / 1e3, config.tpot_ms / 1e3)
        if not 0 <= config.num_draft_tokens <= MAX_K:
            raise ConfigError(f"--num-draft-tokens {config.num_draft_tokens} is not between 0 and {MAX_K}")
        if config.num_requests and config.num_requests < MIN_REQUESTS:
            raise ConfigError(f"--num-requests {config.num_requests} says nothing; 0, or at least {MIN_REQUESTS}")
        if not 0 < config.percent < 100:
            raise ConfigError(f"--percent {config.percent:g} is not between 0 and 100")
        if min(config.target_rtt_ms, config.draft_rtt_ms) < 0:
            raise ConfigError("a round trip takes no less than 0 ms")
        if config.targets_per_draft < 0:
            raise ConfigError(f"{config.targets_per_draft:g} targets a draft is no share")
        if config.target_devices < 1:
            raise ConfigError(f"--target-devices {config.target_devices} is less than 1")
        device, draft_device = _devices(config)
        shape, draft_shape = find_model(config.model), find_model(config.draft_model)
        self._target = Steps(shape, device, config.target_precision, config.kv_precision, config.target_devices)
        self._drafts = {
            layout: Steps(draft_shape, where, config.draft_precision, config.kv_precision)
            for layout, where in (("co-located", device), ("split", draft_device))
        }
        self._links = Links(config.target_rtt_ms / 1e3, config.draft_rtt_ms / 1e3)

    def answers(self) -> Iterator[Answer]:
        """Every layout."""
        for layout in LAYOUTS:
            yield self.answer(layout)

    def answer(self, layout: Layout) -> Answer:
        """The cheapest of a layout, its replicas counted by the simulation where one is wanted."""
        option = self._option(layout)
        plain = Formula(self.site("alone", 0), self.workload).at_load(0.0)
        pace = Pace(0, 1.0, 1.0)
        if layout != "alone":
            pace = for_one_stream(lambda k: self.site(layout, k), self.workload, plain.tpot_s)
        least = Formula(self.site(layout, pace.k), self.workload).at_load(0.0)
        return Answer(layout, option, pace, pace.gain / plain.tpot_s, least.ttft_s)

    def site(self, layout: Layout, k: int, targets_per_draft: float = 1.0) -> Site:
        """One target replica of a layout."""
        engine = Engine(turns=cast(Turns, self._config.turns))
        return Site(self._target, self._drafts.get(layout), k, layout, targets_per_draft, self._links, engine)

    def _option(self, layout: Layout) -> Option | None:
        sizer, ks = Sizer(self.workload), self._ks(layout)

        def sites(k: int) -> list[Site]:
            return self._sites(layout, k)

        if not self._config.num_requests:
            return sizer.cheapest(sites, ks, self.goals)
        return sizer.checked(sites, ks, self.goals, self._config.percent, self._simulated)

    def _ks(self, layout: Layout) -> list[int]:
        if layout == "alone":
            return [0]
        if self._config.num_draft_tokens:
            return [self._config.num_draft_tokens]
        gained = [self.workload.acceptance.num_tokens(k) for k in range(MAX_K + 1)]
        return [k for k in range(1, MAX_K + 1) if k == 1 or gained[k] - gained[k - 1] >= LEAST_SURVIVAL]

    def _sites(self, layout: Layout, k: int) -> list[Site]:
        if layout != "split":
            return [self.site(layout, k)]
        shares = (self._config.targets_per_draft,) if self._config.targets_per_draft else SHARES
        return [self.site(layout, k, share) for share in shares]

    def _simulated(self, site: Site, rate: float) -> Simulated:
        return simulate(site, self.workload, rate, self._config.num_requests, self._config.seed)


def _devices(config: PlanConfig) -> tuple[Device, Device]:
    return (
        find_device(
            config.target_device,
            config.target_bandwidth_gb_s,
            config.target_tflops,
            config.target_memory_gb,
            config.target_usd_per_h if config.target_usd_per_h >= 0 else None,
        ),
        find_device(
            config.draft_device,
            config.draft_bandwidth_gb_s,
            config.draft_tflops,
            config.draft_memory_gb,
            config.draft_usd_per_h if config.draft_usd_per_h >= 0 else None,
        ),
    )
