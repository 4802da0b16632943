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
_BISECTIONS, _SCANNED, _SCAN = 8, 12, 0.75
_BACK_OFF = 0.9  # of the load, where stricter goals on the formula's means find nothing else
_ROUNDING = 0.01
_ATTEMPTS, _NARROWINGS, _NEAR_ENOUGH = 8, 4, 1.1
_LEAST_STEP = 0.88
MOST_PROMPTING = 0.6  # of the time: with more the formula is not trusted, and a first token waits for many others

Check = Callable[[Site, float], Simulated]
Sites = Callable[[int], Iterable[Site]]


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


class Sizer:
    """Sizes layouts for one workload."""

    def __init__(self, workload: Workload) -> None:
        self._workload = workload

    def checked(self, sites: Sites, ks: Iterable[int], goals: Goals, percent: float, check: Check) -> Option | None:
        """The cheapest option that keeps the goals for that percentage of simulated requests.

        The formula knows means. The simulation tells how far a percentile lies above them, and the formula is asked
        again for means so much stricter; replicas are added where that finds nothing else. After _ATTEMPTS the last.
        """
        option, strict, too_few = self.cheapest(sites, ks, goals), goals, 0
        failed: list[Option] = []
        for _ in range(_ATTEMPTS):
            if option is None:
                return None
            last, simulated = self._simulated(option, check)
            if holds(simulated, goals, percent):
                return self._narrowed(last, too_few, lambda each: holds(each, goals, percent), check)
            strict, too_few = _stricter(strict, goals, simulated, percent), option.num_targets
            failed.append(option)
            stricter = self.cheapest(sites, ks, strict)
            option = stricter if stricter not in (None, *failed) else self._with_more(option, _BACK_OFF)
        return last

    def _narrowed(self, option: Option, too_few: int, is_good: Callable[[Simulated], bool], check: Check) -> Option:
        """As few replicas of the same site as the simulation allows, to a tenth; the last step may have been large."""
        for _ in range(_NARROWINGS):
            if not 0 < too_few < option.num_targets / _NEAR_ENOUGH:
                break
            middle = self._whole(option.site, math.ceil(math.sqrt(too_few * option.num_targets)))
            if middle is None:
                break
            fewer, simulated = self._simulated(middle, check)
            if is_good(simulated):
                option = fewer
            else:
                too_few = fewer.num_targets
        return option

    def _simulated(self, option: Option, check: Check) -> tuple[Option, Simulated]:
        simulated = check(option.site, self._workload.rate / option.num_targets)
        return replace(option, simulated=simulated), simulated

    def cheapest(self, sites: Sites, ks: Iterable[int], goals: Goals) -> Option | None:
        """Of every K's sites the cheapest that meets the goals by formula, None where none does."""
        found = [option for k in ks for site in sites(k) if (option := self.sized(site, goals)) is not None]
        return min(found, key=_preference, default=None)

    def sized(self, site: Site, goals: Goals) -> Option | None:
        """The fewest replicas of a site that meet the goals by formula; None where no number does."""
        formula = Formula(site, self._workload)
        low, high = 0.0, formula.max_load
        if high <= 0 or not _meets(formula.at_load(low), goals):
            return None
        for _ in range(_SCANNED):  # from above, since a draft that is full can make the goals hold again beyond a gap
            if _meets(formula.at_load(high * _SCAN), goals):
                low = high * _SCAN
                break
            high *= _SCAN
        for _ in range(_BISECTIONS):
            middle = (low + high) / 2
            low, high = (middle, high) if _meets(formula.at_load(middle), goals) else (low, middle)
        num_targets = max(math.ceil(self._workload.rate / max(formula.at_load(low).rate, 1e-12)), 1)
        option = self._whole(site, num_targets)
        while option is not None and not _meets(option.operation, goals):  # near saturation a rounding can cost a goal
            option = self._with_more(option, 1 - _ROUNDING)
        return option

    def _with_more(self, option: Option, share: float) -> Option:
        num_targets = max(math.ceil(option.num_targets / share), option.num_targets + 1)
        return self._whole(option.site, num_targets) or option

    def _whole(self, site: Site, num_targets: int) -> Option | None:
        num_drafts = 0
        if site.layout == "split":
            num_drafts = max(math.ceil(num_targets / site.targets_per_draft - 1e-9), 1)
            site = replace(site, targets_per_draft=num_targets / num_drafts)
        operation = Formula(site, self._workload).at_rate(self._workload.rate / num_targets)
        return None if operation is None else Option(site, num_targets, num_drafts, operation)


def holds(simulated: Simulated, goals: Goals, percent: float) -> bool:
    """Whether so many in a hundred of the simulated requests met both goals."""
    return simulated.excess(goals, percent) <= 1


def for_one_stream(site_of: Callable[[int], Site], workload: Workload, plain_s: float) -> Pace:
    """The best K where nobody else is there, by the gateway's own rule, and its gain over plain decoding."""

    def round_s(k: int) -> float:
        return Formula(site_of(k), workload).at_load(0.0).tpot_s * workload.acceptance.num_tokens(k)

    return best_pace(workload.acceptance.at, round_s, plain_s, MAX_K)


def _stricter(strict: Goals, goals: Goals, simulated: Simulated, percent: float) -> Goals:
    """Where a goal was missed its mean is lowered by as much, within reason: near saturation misses know no end.

    Where each was met, but not by the same requests, both are.
    """
    ttft = min(max(goals.ttft_s / simulated.percentile("ttft_s", percent), _LEAST_STEP), 1.0)
    tpot = min(max(goals.tpot_s / simulated.percentile("tpot_s", percent), _LEAST_STEP), 1.0)
    if ttft == tpot == 1:
        ttft = tpot = max(1 / simulated.excess(goals, percent), _LEAST_STEP)
    return Goals(strict.ttft_s * ttft, strict.tpot_s * tpot)


def _meets(operation: Operation, goals: Goals) -> bool:
    is_trusted = operation.prompting <= MOST_PROMPTING
    return is_trusted and operation.ttft_s <= goals.ttft_s and operation.tpot_s <= goals.tpot_s


def _preference(option: Option) -> tuple[float, float]:
    return option.usd_per_h, option.operation.tpot_s
