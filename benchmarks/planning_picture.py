"""Draws docs/planning.svg; runs where matplotlib is: `python -m benchmarks.planning_picture FIGURES OUTPUT`."""

import json
import sys
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt

COLOURS = {"alone": "#666666", "co-located": "#c97b1a", "split": "#1b6ca8"}
TOLERANCE = 15


def main(figures: Path, output: Path) -> None:
    """Left: the price of a million tokens for each goal. Right: how far predictions were from measurements."""
    content = json.loads(figures.read_text(encoding="utf-8"))["figures"]
    # Names stay text, so that the picture can be searched and stays small.
    plt.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "forerun", "font.size": 9})
    figure, (left, right) = plt.subplots(1, 2, figsize=(10.5, 4.2), width_ratios=(3, 2))
    prices(left, content["goals"])
    errors(right, content["errors"])
    figure.tight_layout()
    figure.savefig(output, metadata={"Date": None})


def prices(axis: Any, goals: dict[str, Any]) -> None:
    """A line a layout; dots where the simulation counted the replicas."""
    for name, found in goals.items():
        colour, style = COLOURS[name.split(",")[0]], "--" if name.endswith("together") else "-"
        line = {int(goal): each["usd_per_million_tokens"] for goal, each in found["formula"].items()}
        dots = {int(goal): each["usd_per_million_tokens"] for goal, each in found["simulation"].items()}
        axis.plot(list(line), list(line.values()), style, color=colour, label=name)
        axis.plot(list(dots), list(dots.values()), "o", color=colour, markersize=4)
    axis.set_yscale("log")
    ticks = (0.5, 1, 2, 5, 10, 20, 50)
    axis.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    axis.minorticks_off()
    axis.set_xlabel("goal: ms a token")
    axis.set_ylabel("USD a million tokens")
    axis.set_title("70B in FP8 on H200s, 1B draft; lines: formula, mean; dots: simulation, p90", fontsize=9)
    axis.grid(alpha=0.3)
    axis.legend(fontsize=8)


def errors(axis: Any, found: dict[str, float]) -> None:
    """The errors of all predictions of this machine, from the most negative on."""
    percent = sorted(100 * error for error in found.values())
    colours = ["#2f8f5b" if abs(error) <= TOLERANCE else "#a8323e" for error in percent]
    axis.bar(range(len(percent)), percent, color=colours, width=0.8)
    for bound in (-TOLERANCE, TOLERANCE):
        axis.axhline(bound, color="black", linewidth=0.8, linestyle=":")
    num_within = sum(abs(error) <= TOLERANCE for error in percent)
    axis.set_title(f"Predictions of this machine: {num_within} of {len(percent)} within 15 %", fontsize=9)
    axis.set_ylabel("error, %")
    axis.set_xticks([])
    axis.grid(axis="y", alpha=0.3)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
