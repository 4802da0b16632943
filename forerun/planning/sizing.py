"""How many replicas: the highest load of one at which the goals hold, by formula, then checked by simulation."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from forerun.cost.pace import Pace, best_pace
from forerun.planning.formula import Formula, Operation
from forerun.planning.simulation import Simulated
from forerun.planning.site import Site
from forerun.planning.workload import Goals, Workload

SHARES = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)  # target replicas a draft
MAX_K = 16
_BISECTIONS = 12
_BACK_OFF = 0.93  # of the load, where the simulation misses a goal that the formula meets
_ATTEMPTS = 12

Check = Callable[[Site, float], Simulated]


@dataclass(frozen=True)
class Option:
    """A layout that meets the goals: whole replicas, and what each target replica does then."""

    site: Site
    num_targets: int
    num_drafts: int
    operation: Operation
    simulated: Simulated | None = None

    @property
    def usd_per_h(self) -> float:
        """Of all replicas."""
        usd = self.num_targets * self.site.target.num_devices * self.site.target.device.usd_per_h
        if self.site.draft is not None and self.num_drafts:
            usd += self.num_drafts * self.site.draft.num_devices * self.site.draft.device.usd_per_h
        return usd


def cheapest(
    sites: Callable[[int], Iterable[Site]], ks: Iterable[int], workload: Workload, goals: Goals
) -> Option | None:
    """Of every K's sites the cheapest that meets the goals by formula, None where none does.

    Costs fall with K and then rise, so what follows two that were no better is left out.
    """
    best: Option | None = None
    worse = 0
    for k in ks:
        found = [option for site in sites(k) if (option := sized(site, workload, goals)) is not None]
        least = min(found, key=_preference, default=None)
        if least is not None and (best is None or _preference(least) < _preference(best)):
            best, worse = least, 0
        else:
            worse += best is not None
        if worse == 2:
            break
    return best


def sized(site: Site, workload: Workload, goals: Goals, share_of_most: float = 1.0) -> Option | None:
    """The fewest replicas of a site; share_of_most: how much of the highest load that meets the goals is taken."""
    formula = Formula(site, workload)
    low, high = 0.0, formula.max_load
    if high <= 0 or not _meets(formula.at_load(low), goals):
        return None
    if _meets(formula.at_load(high), goals):
        low = high
    for _ in range(_BISECTIONS if low < high else 0):
        middle = (low + high) / 2
        low, high = (middle, high) if _meets(formula.at_load(middle), goals) else (low, middle)
    most = share_of_most * formula.at_load(low).rate
    return _whole(site, workload, max(math.ceil(workload.rate / max(most, 1e-12)), 1))


def checked(option: Option, workload: Workload, goals: Goals, percent: float, check: Check) -> Option:
    """The option with as many replicas as the simulation needs to meet the goals for that percentage of requests.

    The last attempt where none does: its figures say so.
    """
    for _ in range(_ATTEMPTS):
        rate = workload.rate / option.num_targets
        simulated = check(option.site, rate)
        option = replace(option, simulated=simulated)
        if holds(simulated, goals, percent):
            break
        num_targets = max(math.ceil(option.num_targets / _BACK_OFF), option.num_targets + 1)
        option = _whole(option.site, workload, num_targets) or option
    return option


def holds(simulated: Simulated, goals: Goals, percent: float) -> bool:
    """Whether so many in a hundred of the simulated requests met both goals."""
    return (
        simulated.percentile("ttft_s", percent) <= goals.ttft_s
        and simulated.percentile("tpot_s", percent) <= goals.tpot_s
    )


def for_one_stream(site_of: Callable[[int], Site], workload: Workload, plain_s: float) -> Pace:
    """The best K where nobody else is there, by the gateway's own rule, and its gain over plain decoding."""

    def round_s(k: int) -> float:
        return Formula(site_of(k), workload).at_load(0.0).tpot_s * workload.acceptance.num_tokens(k)

    return best_pace(workload.acceptance.at, round_s, plain_s, MAX_K)


def _whole(site: Site, workload: Workload, num_targets: int) -> Option | None:
    num_drafts = 0
    if site.layout == "split":
        num_drafts = max(math.ceil(num_targets / site.targets_per_draft - 1e-9), 1)
        site = replace(site, targets_per_draft=num_targets / num_drafts)
    operation = Formula(site, workload).at_rate(workload.rate / num_targets)
    return None if operation is None else Option(site, num_targets, num_drafts, operation)


def _meets(operation: Operation, goals: Goals) -> bool:
    return operation.ttft_s <= goals.ttft_s and operation.tpot_s <= goals.tpot_s


def _preference(option: Option) -> tuple[float, float]:
    return option.usd_per_h, option.operation.tpot_s
