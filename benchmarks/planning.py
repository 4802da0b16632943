"""The worked example of docs/planning.md: what a million tokens cost for each goal, and what was predicted here.

    python -m benchmarks.planning [--requests 150]

A 70B target in FP8 on H200s, a 1B draft beside it or on GPUs of its own, 5,000 requests/s. For each goal on the time a
token the layouts are sized by formula; at a few goals the simulation counts the replicas. Nothing is measured.
"""

import argparse
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks import report
from benchmarks.peers import environments
from benchmarks.planned import all_figures
from forerun.planning.config import PlanConfig
from forerun.planning.plan import Planner
from forerun.planning.report import row

PICTURE = Path(__file__).parent.parent / "docs" / "planning.svg"
EXAMPLE = PlanConfig(rate=5000.0, prompt_len=800.0, answer_len=400.0, kv_precision="fp8", draft_device="l40s")
GOALS_MS = (9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 24, 26, 28, 30, 33, 36, 40)
CHECKED_MS = (12, 16, 22, 30)
CURVES = (
    ("alone", "shifts"),
    ("co-located", "shifts"),
    ("split", "shifts"),
    ("co-located", "together"),
    ("split", "together"),
)


def curve(layout: str, turns: str, goals_ms: tuple[int, ...], num_requests: int) -> dict[str, Any]:
    """A layout's figures for each goal that it can meet."""
    found = {}
    for goal_ms in goals_ms:
        config = replace(EXAMPLE, tpot_ms=float(goal_ms), turns=turns, num_requests=num_requests)
        planner = Planner(config)
        answer = planner.answer(layout)  # type: ignore[arg-type]
        figures = row(answer, planner.workload, planner.goals, config.percent)
        if figures["meets_goals"]:
            found[str(goal_ms)] = figures
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=150, help="of each simulation")
    arguments = parser.parse_args()
    figures: dict[str, Any] = {}
    for layout, turns in CURVES:
        name = layout if layout == "alone" else f"{layout}, {turns}"
        figures[name] = {
            "formula": curve(layout, turns, GOALS_MS, 0),
            "simulation": curve(layout, turns, CHECKED_MS, arguments.requests),
        }
        for source, found in figures[name].items():
            prices = {goal: each["usd_per_million_tokens"] for goal, each in found.items()}
            print(f"{name}, {source}: {prices}", flush=True)
    predictions = {each.name: round(each.error, 4) for each in all_figures()}
    report.save("planning", {"goals": figures, "errors": predictions})
    python = environments.interpreter("picture")
    source = report.RESULTS / "planning.json"
    subprocess.run([str(python), "-m", "benchmarks.planning_picture", str(source), str(PICTURE)], check=True)


if __name__ == "__main__":
    main()
