"""What was promised, beside what this run reached."""

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from benchmarks.peers.ours import ALONE, BF16
from benchmarks.peers.summary import REFERENCE, Summary
from benchmarks.peers.turns import Condition

GREEDY = Condition(1, 0.0)
PAIRS = ((REFERENCE + BF16, 1.6, 2.0), (REFERENCE, 1.3, 1.6))
"""With speculation over without: the goal over all prompts, and on code."""
NEVER_BELOW = 0.98
PEERS = (("vllm-draft", 3.0), ("vllm", 2.5), ("transformers-draft", 4.0), ("openvino", 1.3), ("llama", 1.1))
"""Default precision over a peer's mode, or over all of its modes at their best."""


@dataclass(frozen=True)
class Goal:
    """One line. reached: None where this run did not measure it."""

    what: str
    goal: float
    reached: float | None

    def __str__(self) -> str:
        if self.reached is None:
            return f"{self.what}: not measured, goal {self.goal:.2f}"
        missed = "" if self.reached >= self.goal else ", MISSED"
        return f"{self.what}: {self.reached:.2f}, goal {self.goal:.2f}{missed}"


def goals(summary: Summary) -> list[Goal]:
    """All of them, in a fixed order."""
    return [*_alone(summary), *_peers(summary), *_batches(summary)]


def as_json(lines: Iterable[Goal]) -> list[dict[str, Any]]:
    """For the results."""
    return [asdict(line) for line in lines]


def _alone(summary: Summary) -> Iterator[Goal]:
    for pair, goal, code_goal in PAIRS:
        name = f"batch 1, greedy: {pair} over {pair}{ALONE}"
        yield Goal(f"{name}, all prompts", goal, _ratio(summary, pair, pair + ALONE))
        yield Goal(f"{name}, code", code_goal, _ratio(summary, pair, pair + ALONE, "code"))
        by_category = [_ratio(summary, pair, pair + ALONE, category) for category in summary.categories(GREEDY)]
        yield Goal(f"{name}, the worst category", NEVER_BELOW, _least(by_category))


def _peers(summary: Summary) -> Iterator[Goal]:
    systems = summary.systems(GREEDY)
    for peer, goal in PEERS:
        modes = [name for name in systems if name == peer or name.startswith(f"{peer}-")]
        best = "" if "-" in peer else " at its best"
        reached = _least([_ratio(summary, REFERENCE, mode) for mode in modes])
        yield Goal(f"batch 1, greedy: {REFERENCE} over {peer}{best}", goal, reached)


def _batches(summary: Summary) -> Iterator[Goal]:
    """Over all conditions with several prompts at once."""
    for pair, *_ in PAIRS:
        ratios = [
            summary.ratio(pair, pair + ALONE, condition) for condition in summary.conditions if condition.batch > 1
        ]
        reached = _least([ratio.mean if ratio else None for ratio in ratios])
        yield Goal(f"batches: {pair} over {pair}{ALONE}, at worst", NEVER_BELOW, reached)


def _ratio(summary: Summary, ours: str, other: str, category: str | None = None) -> float | None:
    ratio = summary.ratio(ours, other, GREEDY, category)
    return ratio.mean if ratio else None


def _least(values: Iterable[float | None]) -> float | None:
    return min((value for value in values if value is not None), default=None)
