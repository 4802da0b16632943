"""What `forerun plan` prints: plain figures for people and the same as JSON."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from forerun.planning.config import PlanConfig
from forerun.planning.plan import Answer
from forerun.planning.sizing import Option, holds
from forerun.planning.workload import Goals, Workload

Row = dict[str, Any]


def as_json(config: PlanConfig, answers: Sequence[Answer], workload: Workload, goals: Goals) -> dict[str, Any]:
    """Inputs, and each layout's figures."""
    rows = {answer.layout: row(answer, workload, goals, config.percent) for answer in answers}
    return {"inputs": asdict(config), "layouts": rows}


def row(answer: Answer, workload: Workload, goals: Goals, percent: float) -> Row:
    """One layout's figures. usd_per_million_tokens: of answers, prompts included in their price."""
    figures: Row = {
        "meets_goals": answer.option is not None,
        "one_stream": {
            "k": answer.one_stream.k,
            "tokens_per_s": round(answer.one_stream_tokens_per_s, 1),
            "speedup": round(answer.one_stream.gain, 2),
            "ttft_ms": _ms(answer.least_ttft_s),
        },
    }
    if answer.option is not None:
        figures.update(_sized(answer.option, workload, goals, percent))
    return figures


def _sized(option: Option, workload: Workload, goals: Goals, percent: float) -> Row:
    operation, tokens_per_s = option.operation, workload.rate * workload.answer_len
    figures: Row = {
        "k": option.site.k,
        "targets": option.num_targets,
        "drafts": option.num_drafts,
        "usd_per_h": round(option.usd_per_h, 2),
        "usd_per_million_tokens": round(option.usd_per_h / tokens_per_s / 3600 * 1e6, 3),
        "tokens_per_s": round(tokens_per_s, 1),
        "tokens_per_s_a_target": round(tokens_per_s / option.num_targets, 1),
        "sequences_a_target": round(operation.num_sequences, 1),
        "busy": round(operation.busy, 3),
        "formula": {"ttft_ms": _ms(operation.ttft_s), "tpot_ms": _ms(operation.tpot_s)},
    }
    if (simulated := option.simulated) is not None:
        figures["meets_goals"] = holds(simulated, goals, percent)
        figures["simulation"] = {
            "ttft_ms": _ms(simulated.mean("ttft_s")),
            "tpot_ms": _ms(simulated.mean("tpot_s")),
            f"ttft_p{percent:g}_ms": _ms(simulated.percentile("ttft_s", percent)),
            f"tpot_p{percent:g}_ms": _ms(simulated.percentile("tpot_s", percent)),
            "within_goals": round(simulated.within(goals), 3),
        }
    return figures


def _ms(seconds: float) -> float:
    return round(1e3 * seconds, 2)
