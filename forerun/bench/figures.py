"""Windows of one kind → the figures that are told of them."""

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from forerun.bench.ratio import paired_ratio
from forerun.bench.window import Window


@dataclass(frozen=True)
class Figures:
    """None stands for what was not to be seen. Latencies are of all answers together, tokens/s the median window's."""

    num_done: int
    num_failed: int
    num_tokens: int
    tokens_per_s: float | None
    ttft_p50_ms: float | None
    ttft_p99_ms: float | None
    tpot_p50_ms: float | None
    tpot_p99_ms: float | None
    gap_p99_ms: float | None
    acceptance_rate: float | None  # accepted / drafted tokens
    mean_acceptance_length: float | None  # 1 + accepted / drafts
    drafted_share: float | None  # of the answers, those that any token was drafted for
    client_busy_share: float  # the greatest of any window


def figures(windows: Sequence[Window]) -> Figures:
    """Of windows that saw the same load; those that were broken off count for tokens/s only where no other is there."""
    answers = [answer for window in windows for answer in window.answers]
    ttft = [answer.ttft_s for answer in answers]
    tpot = [answer.tpot_s for answer in answers]
    gaps = [gap for answer in answers for gap in answer.gaps_s]
    told = [answer.speculative for answer in answers if answer.speculative is not None]
    drafts, drafted, accepted = (
        sum(counts[f"num_{name}"] for counts in told) for name in ("drafts", "draft_tokens", "accepted_tokens")
    )
    return Figures(
        num_done=len(answers),
        num_failed=sum(len(window.failures) for window in windows),
        num_tokens=sum(window.num_tokens for window in windows),
        tokens_per_s=_rate(windows),
        ttft_p50_ms=_percentile_ms(ttft, 50),
        ttft_p99_ms=_percentile_ms(ttft, 99),
        tpot_p50_ms=_percentile_ms(tpot, 50),
        tpot_p99_ms=_percentile_ms(tpot, 99),
        gap_p99_ms=_percentile_ms(gaps, 99),
        acceptance_rate=round(accepted / drafted, 3) if drafted else None,
        mean_acceptance_length=round(1 + accepted / drafts, 2) if drafts else None,
        drafted_share=round(sum(counts["num_drafts"] > 0 for counts in told) / len(told), 3) if told else None,
        client_busy_share=round(max((window.client_busy_share for window in windows), default=0.0), 3),
    )


def on_over_off(on: Sequence[Window], off: Sequence[Window]) -> dict[str, float] | None:
    """The ratio of tokens/s, window by window, with its spread; None before the first whole pair."""
    pairs = [(a.tokens_per_s, b.tokens_per_s) for a, b in zip(on, off, strict=False) if a.is_whole and b.is_whole]
    known = [(a, b) for a, b in pairs if a and b]
    return paired_ratio(*zip(*known, strict=True)) if known else None


def _rate(windows: Sequence[Window]) -> float | None:
    counted = [window for window in windows if window.is_whole] or windows
    rates = [rate for window in counted if (rate := window.tokens_per_s) is not None]
    return round(statistics.median(rates), 1) if rates else None


def _percentile_ms(seconds: Iterable[float | None], percent: float) -> float | None:
    known = [each for each in seconds if each is not None]
    return round(1e3 * float(np.percentile(known, percent)), 1) if known else None
