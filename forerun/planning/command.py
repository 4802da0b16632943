"""The `forerun plan` command."""

import json
from collections.abc import Sequence

from rich.console import Console

from forerun.config import parse
from forerun.planning.config import PlanConfig
from forerun.planning.display import show
from forerun.planning.plan import Planner
from forerun.planning.report import as_json


def main(argv: Sequence[str]) -> int:
    """Prints the plan; returns 0, or 1 where no layout meets the goals."""
    config = parse(PlanConfig, argv, "forerun plan")
    planner = Planner(config)
    answers = list(planner.answers())
    figures = as_json(config, answers, planner.workload, planner.goals)
    console = Console()
    if config.json:
        console.print_json(json.dumps(figures))
    else:
        show(figures, console)
    return 0 if any(row["meets_goals"] for row in figures["layouts"].values()) else 1
