"""From records to figures: paired ratios, and the table."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.peers.turns import Condition, Record

REFERENCE = "forerun"


@dataclass(frozen=True)
class Ratio:
    """The geometric mean of ratios job by job, with its 95% interval; num_jobs of them."""

    mean: float
    low: float
    high: float
    num_jobs: int


class Summary:
    """Answers questions about the records of a run."""

    def __init__(self, records: Sequence[Record]) -> None:
        self._records = records

    @property
    def conditions(self) -> list[Condition]:
        """In the order in which they were run."""
        return list(dict.fromkeys(record.condition for record in self._records))

    def systems(self, condition: Condition) -> list[str]:
        """Those with a figure, ours first."""
        return list(dict.fromkeys(record.system for record in self._records if record.condition == condition))

    def categories(self, condition: Condition) -> list[str]:
        """In the order in which they were run."""
        return list(dict.fromkeys(record.category for record in self._records if record.condition == condition))

    def rate(self, system: str, condition: Condition, category: str | None = None) -> float | None:
        """Median tokens per second."""
        rates = list(self._rates(system, condition, category).values())
        return statistics.median(rates) if rates else None

    def ratio(self, ours: str, other: str, condition: Condition, category: str | None = None) -> Ratio | None:
        """How many times as fast as `other`, over the jobs that both did."""
        numerators = self._rates(ours, condition, category)
        denominators = self._rates(other, condition, category)
        logs = [math.log(numerators[turn] / rate) for turn, rate in denominators.items() if turn in numerators]
        if not logs:
            return None
        mean = statistics.fmean(logs)
        spread = 1.96 * statistics.stdev(logs) / math.sqrt(len(logs)) if len(logs) > 1 else 0.0
        mean, low, high = (round(math.exp(value), 3) for value in (mean, mean - spread, mean + spread))
        return Ratio(mean, low, high, len(logs))

    def _rates(self, system: str, condition: Condition, category: str | None) -> dict[str, float]:
        return {
            record.turn: record.tokens_per_s
            for record in self._records
            if (record.system, record.condition) == (system, condition) and category in (None, record.category)
        }


def table(summary: Summary, condition: Condition) -> str:
    """Markdown: median tokens/s of each system by category, and our speed as a multiple of its."""
    categories = summary.categories(condition)
    head = ["system", *categories, "all", f"{REFERENCE} is times as fast"]
    rows = [head, ["---"] * len(head)]
    for system in summary.systems(condition):
        rates = [summary.rate(system, condition, category) for category in (*categories, None)]
        ratio = summary.ratio(REFERENCE, system, condition)
        times = f"{ratio.mean:.2f} ({ratio.low:.2f}–{ratio.high:.2f})" if ratio else "–"
        rows.append([system, *(f"{rate:.1f}" if rate else "–" for rate in rates), times])
    lines = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    return f"{condition}, median tokens/s\n\n{lines}\n"


def as_json(summary: Summary) -> dict[str, Any]:
    """By condition and system: rates by category, and the ratio of the reference to it."""
    return {
        str(condition): {
            system: {
                "tokens_per_s": {
                    category or "all": _rounded(summary.rate(system, condition, category))
                    for category in (None, *summary.categories(condition))
                },
                "ratio": vars(ratio) if (ratio := summary.ratio(REFERENCE, system, condition)) else None,
            }
            for system in summary.systems(condition)
        }
        for condition in summary.conditions
    }


def _rounded(rate: float | None) -> float | None:
    return None if rate is None else round(rate, 1)
