"""The cost model under load: what one target replica with its share of drafts does at a request rate, in means.

A round takes K · t_d + T_v + R (docs/performance.md); sequences take turns as forerun/cost/shifts.py says; how many
there are follows from Little's law, how long a prompt waits from Pollaczek and Khinchine's.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

from forerun.cost.shifts import cycle_s
from forerun.planning.loop import Loop, Step
from forerun.planning.site import Site
from forerun.planning.workload import Workload

_ROUNDS = 24
_BISECTIONS = 16
_NEAR = 1e-4
_MOST_PROMPTING = 0.999


@dataclass(frozen=True)
class Operation:
    """Means of one target replica. rate: requests/s; num_sequences: those that decode; busy: share with a step running.

    prompting: share of the time in which a prompt is computed.
    """

    rate: float
    num_sequences: float
    ttft_s: float
    tpot_s: float
    busy: float
    prompting: float


@dataclass(frozen=True, slots=True)
class _Cycle:
    """tpot_s; step_s, of the target, over so many sequences; what passes on its device between two; nothing decodes."""

    tpot_s: float
    step_s: float
    step_sequences: float
    between_s: float
    idle: float


class Formula:
    """One site under a workload."""

    def __init__(self, site: Site, workload: Workload) -> None:
        self._site, self._workload = site, workload
        context_len, prompt_len = workload.decoding_context_len, workload.prompt_len
        self._target = Loop(site.target, site.engine, context_len, prompt_len)
        self._draft = Loop(site.draft, site.engine, context_len, prompt_len) if site.draft and site.k else None
        self._tokens_a_round = workload.acceptance.num_tokens(site.k)
        # A mean that is kept free of what varies around it: two standard deviations of a Poisson number.
        most = site.max_sequences(workload.prompt_len + workload.answer_len)
        self.max_load = max(most + 2 - 2 * math.sqrt(most + 1), 0.0)

    def at_load(self, num_sequences: float) -> Operation:
        """Where so many sequences decode in the mean."""
        rows = self._site.k + 1
        prompting, draft_prompting = 0.0, 0.0
        cycle = self._cycle(num_sequences, prompting, draft_prompting, self._first(num_sequences))
        rate = self._rate(num_sequences, cycle)
        for _ in range(_ROUNDS):
            step = self._target.step(cycle.step_sequences, rows)
            tokens_per_s = rate * self._workload.prompt_len
            prompting = min(self._target.prompting(step, tokens_per_s, cycle.idle, cycle.between_s), _MOST_PROMPTING)
            draft_prompting = self._draft_prompting(rate)
            cycle = self._cycle(num_sequences, prompting, draft_prompting, cycle)
            before, rate = rate, math.sqrt(rate * self._rate(num_sequences, cycle))
            if abs(rate - before) < _NEAR * rate:
                break
        ttft_s = self._ttft_s(cycle, prompting)
        return Operation(rate, num_sequences, ttft_s, cycle.tpot_s, 1 - cycle.idle * (1 - prompting), prompting)

    def at_rate(self, rate: float) -> Operation | None:
        """At a request rate; None where the replica cannot hold it."""
        low, high = 0.0, self.max_load
        if high <= 0 or self.at_load(high).rate < rate:
            return None
        for _ in range(_BISECTIONS):
            middle = (low + high) / 2
            low, high = (middle, high) if self.at_load(middle).rate < rate else (low, middle)
        return self.at_load(high)

    def alone(self) -> float:
        """Tokens/s of a single sequence."""
        return 1 / self.at_load(0.0).tpot_s

    def _rate(self, num_sequences: float, cycle: _Cycle) -> float:
        return max(num_sequences, 1e-9) / ((self._workload.answer_len - 1) * cycle.tpot_s)

    def _first(self, num_sequences: float) -> _Cycle:
        step_s = self._target.step(1 + num_sequences, self._site.k + 1).decode_s
        return _Cycle(step_s, step_s, 1 + num_sequences, 0.0, math.exp(-num_sequences))

    def _cycle(self, others: float, prompting: float, draft_prompting: float, last: _Cycle) -> _Cycle:
        """From verdict to verdict of a sequence that meets so many others."""
        num_sequences, rows = 1 + others, self._site.k + 1
        empty = math.exp(-others)
        if self._draft is None:
            step_s = self._target.step(num_sequences, 1).mean_s(prompting)
            return _Cycle(step_s, step_s, num_sequences, 0.0, empty)
        is_split = self._site.layout == "split"

        draft = self._draft

        def drafting_s(sequences: float) -> float:
            return self._site.k * draft.step(sequences, 1).mean_s(draft_prompting)

        def turn_s(num_rows: float) -> float:
            step = self._target.step(num_rows / rows, rows)
            return step.mean_s(prompting, 0.0 if is_split else drafting_s(num_rows / rows))

        away_s = self._site.target_trip_s + self._site.draft_trip_s
        if is_split:
            drafted_s = drafting_s(1.0)
            for _ in range(3):
                whole_s = max(last.tpot_s * self._tokens_a_round, drafted_s)
                drafted_s = drafting_s(1 + others * self._site.targets_per_draft * drafted_s / whole_s)
            away_s += drafted_s
        if self._site.engine.turns == "together":
            return self._together(away_s, turn_s(num_sequences * rows), num_sequences, empty)
        if is_split:
            seconds = cycle_s(turn_s, away_s, num_sequences, rows)
        else:
            seconds = one_device_s(turn_s, away_s, num_sequences, rows)
        shifts = shifts_of(seconds, turn_s, num_sequences, rows)
        step_sequences = num_sequences / shifts
        step_s = turn_s(step_sequences * rows)
        between_s = 0.0 if is_split else drafting_s(step_sequences)
        resting = max(0.0, 1 - shifts * step_s / seconds)
        idle = empty + (1 - empty) * resting
        return _Cycle(seconds / self._tokens_a_round, step_s, step_sequences, between_s, idle)

    def _together(self, away_s: float, turn_s: float, num_sequences: float, empty: float) -> _Cycle:
        """All in one step, which nobody overtakes: prompts, too, wait for those who are away."""
        seconds = away_s + turn_s
        step_s = self._target.step(num_sequences, self._site.k + 1).decode_s
        return _Cycle(seconds / self._tokens_a_round, turn_s, num_sequences, max(seconds - step_s, 0.0), empty)

    def _draft_prompting(self, rate: float) -> float:
        if self._draft is None:
            return 0.0
        share = self._site.targets_per_draft if self._site.layout == "split" else 1.0
        step: Step = self._draft.step(1.0, 1)
        tokens_per_s = share * rate * self._workload.prompt_len
        return min(self._draft.prompting(step, tokens_per_s, 0.5), _MOST_PROMPTING)

    def _ttft_s(self, cycle: _Cycle, prompting: float) -> float:
        step = self._target.step(cycle.step_sequences, self._site.k + 1)
        service_s = self._workload.prompt_len * self._target.prompt_token_s(step, cycle.idle, cycle.between_s)
        spread = (1 + self._workload.length_cv**2) / 2
        waiting_s = prompting * service_s * spread / (1 - prompting)
        joining_s = (1 - cycle.idle) * cycle.step_s / 2
        rounding_s = (1 - cycle.idle) * (step.full_s + cycle.between_s) / 2
        return self._site.target_trip_s + joining_s + waiting_s + service_s + rounding_s


def shifts_of(seconds: float, turn_s: Callable[[float], float], num_sequences: float, rows: int) -> float:
    """How many groups take turns in a cycle, by the step that each of them gets."""
    shifts = min(2.0, num_sequences)
    for _ in range(3):
        shifts = min(max(seconds / turn_s(num_sequences * rows / shifts), 1.0), num_sequences)
    return shifts


def one_device_s(turn_s: Callable[[float], float], away_s: float, num_sequences: float, rows: int) -> float:
    """Seconds from verdict to verdict where draft and target take turns on one device.

    While some are verified, those of the step before wait to be drafted for, and the device goes on with whoever was
    drafted for meanwhile: three groups. A sequence is in any of them alike; a group that is empty takes no turn.
    """
    groups: float = 3 * (1 - (2 / 3) ** num_sequences)
    turn = turn_s(num_sequences * rows / groups)
    return max(groups * turn, away_s + turn)
