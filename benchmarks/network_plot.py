"""Draws the figures of benchmarks/network.py: `python -m benchmarks.network_plot FIGURES OUTPUT`."""

import json
import sys
from pathlib import Path
from typing import Any

LINKS = {"draft": "the draft's link", "target": "the target's link"}


def draw(figures: Path, output: Path) -> None:
    """One panel a link: speed over that of the undelayed target alone, measured and promised, by the delay."""
    import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    content = json.loads(figures.read_text(encoding="utf-8"))
    plt.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "forerun", "font.size": 9})
    picture, axes = plt.subplots(1, len(LINKS), figsize=(9, 3.4), sharey=True)
    for axis, (link, name) in zip(axes, LINKS.items(), strict=True):
        cells = {key: found for key, found in content["figures"].items() if key.startswith(f"{link}, ")}
        _panel(axis, cells)
        axis.set_title(f"delay on {name}", fontsize=10)
        axis.set_xlabel("ms, one way")
    axes[0].set_ylabel("tokens/s over the undelayed target's")
    axes[0].legend(fontsize=8, frameon=False)
    environment = content["environment"]
    where = f"{environment['cpu'].split(' (')[0]}, {environment['cores']} cores, {environment['date']}"
    picture.supxlabel(f"medians of paired ratios and 95% intervals; {where}", fontsize=8)
    picture.tight_layout()
    picture.savefig(output, metadata={"Date": None})
    plt.close(picture)


def _panel(axis: Any, cells: dict[str, Any]) -> None:
    places = range(len(cells))
    ratios = [found["pair_over_undelayed_target"] for found in cells.values()]
    medians = [ratio["median"] for ratio in ratios]
    errors = [
        [ratio["median"] - ratio["low"] for ratio in ratios],
        [ratio["high"] - ratio["median"] for ratio in ratios],
    ]
    axis.errorbar(places, medians, yerr=errors, fmt="o", color="#1b6ca8", capsize=3, label="measured")
    promised = [found["promised"] for found in cells.values()]
    axis.plot(places, promised, "_", markersize=16, color="#c97b1a", label="promised by the cost model")
    goal = next(iter(cells.values()))["goal"]
    axis.axhline(goal, color="#a8323e", linewidth=0.8, linestyle="--", label=f"goal: {goal}")
    axis.axhline(1, color="black", linewidth=0.6)
    axis.set_xticks(places, [key.split(", ")[1].removesuffix(" ms") for key in cells])
    axis.grid(axis="y", alpha=0.3)


if __name__ == "__main__":
    draw(Path(sys.argv[1]), Path(sys.argv[2]))
