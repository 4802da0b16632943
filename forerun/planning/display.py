"""The plan as a table."""

from typing import Any

from rich.console import Console
from rich.table import Table


def show(figures: dict[str, Any], console: Console) -> None:
    """A column a layout, and in a sentence which is cheapest."""
    inputs, layouts = figures["inputs"], figures["layouts"]
    console.print(
        f"{inputs['rate']:g} requests/s of {inputs['prompt_len']:g} + {inputs['answer_len']:g} tokens; goals: first "
        f"token {inputs['ttft_ms']:g} ms, further {inputs['tpot_ms']:g} ms, for {inputs['percent']:g} in 100 requests",
        highlight=False,
    )
    table = Table()
    table.add_column("")
    for layout in layouts:
        table.add_column(layout, justify="right")
    for name, cells in _lines(inputs, list(layouts.values())):
        table.add_row(name, *cells)
    console.print(table)
    console.print(_verdict(layouts), highlight=False)


def _lines(inputs: dict[str, Any], rows: list[dict[str, Any]]) -> list[tuple[str, list[str]]]:
    percentile = f"p{inputs['percent']:g}"
    sized = {
        "K": "k",
        f"targets ({inputs['target_devices']} x {inputs['target_device']} each)": "targets",
        f"drafts ({inputs['draft_device']})": "drafts",
        "USD an hour": "usd_per_h",
        "USD a million tokens": "usd_per_million_tokens",
        "tokens/s, all": "tokens_per_s",
        "tokens/s a target": "tokens_per_s_a_target",
        "sequences a target": "sequences_a_target",
    }
    lines = [(name, [_text(row.get(key)) for row in rows]) for name, key in sized.items()]
    for source in ("formula", "simulation"):
        for key in ("ttft", "tpot"):
            cells = [_text(row.get(source, {}).get(f"{key}_ms")) for row in rows]
            lines.append((f"{key.upper()} ms, {source}, mean", cells))
    for key in ("ttft", "tpot"):
        cells = [_text(row.get("simulation", {}).get(f"{key}_{percentile}_ms")) for row in rows]
        lines.append((f"{key.upper()} ms, simulation, {percentile}", cells))
    shares = [row.get("simulation", {}).get("within_goals") for row in rows]
    lines.append(("requests within both goals, simulation", [_share(share) for share in shares]))
    one = [row["one_stream"] for row in rows]
    lines.append(("one stream alone: best K", [_text(each["k"]) for each in one]))
    lines.append(("one stream alone: tokens/s", [_text(each["tokens_per_s"]) for each in one]))
    lines.append(("goals met", ["yes" if row["meets_goals"] else "no" for row in rows]))
    return lines


def _verdict(layouts: dict[str, Any]) -> str:
    met = {name: row for name, row in layouts.items() if row["meets_goals"]}
    if not met:
        least = min(layouts.values(), key=lambda row: -row["one_stream"]["tokens_per_s"])["one_stream"]
        return (
            "No layout meets the goals. With nobody else there a first token takes "
            f"{least['ttft_ms']:g} ms and the fastest stream {1e3 / least['tokens_per_s']:.1f} ms a token."
        )
    best = min(met, key=lambda name: (met[name]["usd_per_h"], met[name]["formula"]["tpot_ms"]))
    return f"Cheapest: {best}, {met[best]['usd_per_million_tokens']:g} USD a million tokens."


def _share(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f} %"


def _text(value: Any) -> str:
    return "-" if value is None else f"{value:,}"
