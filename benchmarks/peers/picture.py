"""Draws the results as SVG; runs in an environment of its own: `python -m benchmarks.peers.picture FIGURES OUTPUT`."""

import json
import sys
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt

COLOURS = {
    "forerun": "#1b6ca8",
    "transformers": "#c97b1a",
    "vllm": "#7a4fa3",
    "openvino": "#2f8f5b",
    "llama": "#a8323e",
}
OTHER = "#666666"
TICKS = (0.5, 0.7, 1, 1.5, 2, 3, 5, 8, 12)


def main(figures: Path, output: Path) -> None:
    """One panel a condition: for each system, how many times as fast the reference is, with its interval."""
    content = json.loads(figures.read_text(encoding="utf-8"))
    conditions = content["figures"]["conditions"]
    environment = content["environment"]
    columns = min(2, len(conditions))
    rows = -(-len(conditions) // columns)
    height = 0.3 * max(map(len, conditions.values())) + 1.2
    # Names of systems stay text, so that the picture can be searched and stays small.
    plt.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "forerun", "font.size": 9})
    figure, axes = plt.subplots(rows, columns, figsize=(4.8 * columns, height * rows), squeeze=False, sharex=True)
    for axis in axes.flat[len(conditions) :]:
        axis.set_visible(False)
    for axis, (name, systems) in zip(axes.flat, conditions.items(), strict=False):
        panel(axis, name, systems)
    figure.suptitle("How many times as fast as each system Forerun is", fontsize=11)
    where = f"{environment['cpu'].split(' (')[0]}, {environment['cores']} cores, {environment['date']}"
    figure.supxlabel(f"tokens/s over tokens/s, geometric mean and 95% interval over jobs; {where}", fontsize=8)
    figure.tight_layout()
    figure.savefig(output, metadata={"Date": None})


def panel(axis: Any, name: str, systems: dict[str, Any]) -> None:
    """One condition."""
    drawn = {system: entry["ratio"] for system, entry in systems.items() if entry["ratio"] and system != "forerun"}
    for place, (system, ratio) in enumerate(sorted(drawn.items(), key=lambda entry: entry[1]["mean"])):
        colour = COLOURS.get(system.split("-")[0], OTHER)
        mean = ratio["mean"]
        error = [[mean - ratio["low"]], [ratio["high"] - mean]]
        axis.errorbar(mean, place, xerr=error, fmt="o", color=colour, capsize=3, markersize=5)
        axis.annotate(f"{mean:.2f}", (mean, place), xytext=(0, 5), textcoords="offset points", ha="center", fontsize=7)
    axis.set_yticks(range(len(drawn)), sorted(drawn, key=lambda system: drawn[system]["mean"]))
    axis.set_xscale("log")
    axis.set_xticks(TICKS, [f"{tick:g}" for tick in TICKS])
    axis.minorticks_off()
    axis.axvline(1, color="black", linewidth=0.8)
    axis.grid(axis="x", alpha=0.3)
    axis.set_title(name, fontsize=10)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
