"""A target replica with its share of drafts, request by request in simulated time: the check of the formula.

It knows nothing of the formula's means: requests come as a Poisson process with lengths of their own, drafted tokens
are accepted one by one, steps hold their device, and prompts go in chunks by the engine's own budget. A draft beside
its target goes first.
"""

import math
import random
import statistics
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from typing import Any

from forerun.errors import ConfigError
from forerun.planning.site import Site
from forerun.planning.workload import Goals, Workload

WARM_UP = 0.25  # of the requests, that count in no figure
_ROUNDING = 1e-9


@dataclass
class Simulated:
    """What the counted requests saw, in seconds; both lists are in the order of requests."""

    ttft_s: list[float] = field(default_factory=list)
    tpot_s: list[float] = field(default_factory=list)
    tokens_per_s: float = 0.0
    busy: float = 0.0

    def mean(self, name: str) -> float:
        """Of "ttft_s" or "tpot_s", over requests."""
        return statistics.fmean(getattr(self, name))

    def percentile(self, name: str, percent: float) -> float:
        """The value that so many in a hundred requests stay within."""
        return _percentile(getattr(self, name), percent)

    def within(self, goals: Goals) -> float:
        """The share of requests that met both goals."""
        return statistics.fmean(excess <= 1 for excess in self._excesses(goals))

    def excess(self, goals: Goals, percent: float) -> float:
        """How many times longer goals would have to be for so many in a hundred requests to meet both."""
        return _percentile(self._excesses(goals), percent)

    def _excesses(self, goals: Goals) -> list[float]:
        both = zip(self.ttft_s, self.tpot_s, strict=True)
        return [max(ttft_s / goals.ttft_s, tpot_s / goals.tpot_s) for ttft_s, tpot_s in both]


class Simulation:
    """One run. Raises ConfigError where SimPy is not installed."""

    def __init__(self, site: Site, workload: Workload, rate: float, num_requests: int, seed: int) -> None:
        try:
            import simpy

            from forerun.planning.stepper import Stepper
        except ImportError as error:
            raise ConfigError(
                "the simulation needs SimPy: pip install 'forerun[plan]', or leave it out with --num-requests 0"
            ) from error
        self._site, self._workload, self._rate = site, workload, rate
        self._num_requests, self._random = num_requests, random.Random(seed)
        self._env = simpy.Environment()
        device = simpy.PriorityResource(self._env)
        self._target = Stepper(self._env, site.target, site.engine, device)
        self._draft = None
        if site.draft is not None and site.k and site.layout == "split":
            own = simpy.PriorityResource(self._env)
            self._draft = Stepper(self._env, site.draft, site.engine, own, share=site.targets_per_draft)
        elif site.draft is not None and site.k:
            self._draft = Stepper(self._env, site.draft, site.engine, device, priority=0, steps_a_turn=site.k)
        context_len = workload.prompt_len + workload.answer_len
        self._places = simpy.Resource(self._env, max(int(site.max_sequences(context_len)), 1))
        self._found = Simulated()
        self._num_tokens, self._counted_from = 0, 0.0
        self._ended = self._env.event()
        self._num_ended = 0

    def run(self) -> Simulated:
        """All requests, from an empty replica on; figures are of those that came after the warm-up."""
        self._env.process(self._arrivals())
        self._env.run(until=self._ended)
        self._found.tokens_per_s = self._num_tokens / (self._env.now - self._counted_from)
        self._found.busy = self._target.busy_s / self._env.now
        return self._found

    def _arrivals(self) -> Generator[Any, Any, None]:
        for number in range(2 * self._num_requests):
            yield self._env.timeout(self._random.expovariate(self._rate))
            self._env.process(self._request(number))

    def _request(self, number: int) -> Generator[Any, Any, None]:
        start, workload, site = self._env.now, self._workload, self._site
        prompt_len, answer_len = self._length(workload.prompt_len, 1), self._length(workload.answer_len, 2)
        with self._places.request() as place:
            yield place
            yield self._env.timeout(site.target_trip_s / 2)
            drafted = self._draft.prompt(prompt_len) if self._draft is not None else None
            yield self._target.prompt(prompt_len)
            yield self._env.timeout(site.target_trip_s / 2)
            first = self._env.now
            context_len = prompt_len + answer_len / 2
            if drafted is None:
                yield self._target.work(answer_len - 1, 1, context_len)
            else:
                yield from self._rounds(answer_len - 1, context_len, drafted)
        self._saw(number, first - start, (self._env.now - first) / (answer_len - 1), answer_len)

    def _rounds(self, num_tokens: int, context_len: float, drafted: Any) -> Generator[Any, Any, None]:
        site, env, draft = self._site, self._env, self._draft
        awaited = 1 if site.engine.turns == "together" else 0
        self._target.await_one(awaited)
        while num_tokens > 0 and draft is not None:
            if drafted.triggered:
                yield env.timeout(site.draft_trip_s / 2)
                yield draft.work(site.k, 1, context_len)
                yield env.timeout((site.draft_trip_s + site.target_trip_s) / 2)
                yield self._target.work(1, site.k + 1, context_len)
                num_tokens -= self._accepted()
            else:
                yield env.timeout(site.target_trip_s / 2)
                yield self._target.work(1, 1, context_len)
            yield env.timeout(site.target_trip_s / 2)
            num_tokens -= 1
        self._target.await_one(-awaited)

    def _accepted(self) -> int:
        for position in range(self._site.k):
            if self._random.random() >= self._workload.acceptance.at(position):
                return position
        return self._site.k

    def _length(self, mean: float, least: int) -> int:
        cv = self._workload.length_cv
        if not cv:
            return max(round(mean), least)
        return max(round(self._random.gammavariate(1 / cv**2, mean * cv**2)), least)

    def _saw(self, number: int, ttft_s: float, tpot_s: float, answer_len: int) -> None:
        warm = int(WARM_UP * self._num_requests)
        self._num_ended += 1
        if self._num_ended == warm:
            self._counted_from = self._env.now
        elif self._num_ended > warm:
            self._num_tokens += answer_len
        if warm <= number < self._num_requests:
            self._found.ttft_s.append(ttft_s)
            self._found.tpot_s.append(tpot_s)
        counted = len(self._found.ttft_s)
        if counted == self._num_requests - warm and not self._ended.triggered:
            self._ended.succeed()


def _percentile(values: Sequence[float], percent: float) -> float:
    place = math.ceil(percent / 100 * len(values) - _ROUNDING) - 1
    return float(sorted(values)[max(place, 0)])


def simulate(site: Site, workload: Workload, rate: float, num_requests: int = 400, seed: int = 1) -> Simulated:
    """One target replica at a rate of requests."""
    return Simulation(site, workload, rate, num_requests, seed).run()
