"""What was measured, as one table."""

from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

COLUMNS = (
    "at\nonce",
    "speculation",
    "done /\nfailed",
    "tokens/s",
    "TTFT ms\np50 / p99",
    "TPOT ms\np50 / p99",
    "gap ms\np99",
    "accepted",
    "mean\nlength",
    "drafted\nfor",
    "tokens/s\non / off",
)


def show(report: dict[str, Any], console: Console) -> None:
    """A row for each load and mode that was met; the ratio stands with the load's first row."""
    settings = report["settings"]
    console.print(
        f"{settings['model']} at {settings['url']}: {settings['num_requests']} requests a window, up to "
        f"{settings['max_tokens']} tokens each, temperature {settings['temperature']:g}; rounds: {settings['rounds']}",
        highlight=False,
        markup=False,
        soft_wrap=True,
    )
    table = Table(box=box.SIMPLE_HEAD)
    for name in COLUMNS:
        table.add_column(name, justify="right")
    for load in report["loads"]:
        for cells in _rows(load):
            table.add_row(*cells)
    console.print(table)
    for load in report["loads"]:
        for failure, count in load["failures"].items():
            console.print(
                f"{load['concurrency']} at once, {count} failed: {failure}",
                highlight=False,
                markup=False,
                soft_wrap=True,
            )


def _rows(load: dict[str, Any]) -> list[list[str]]:
    rows: list[list[str]] = []
    ratio = _ratio(load["on_over_off"])
    for mode, row in load["speculation"].items():
        if not row["num_done"] + row["num_failed"]:
            continue
        cells = [str(load["concurrency"]), mode, f"{row['num_done']} / {row['num_failed']}", _text(row["tokens_per_s"])]
        cells += [f"{_text(row[f'{name}_p50_ms'])} / {_text(row[f'{name}_p99_ms'])}" for name in ("ttft", "tpot")]
        cells += [_text(row["gap_p99_ms"]), _share(row["acceptance_rate"]), _text(row["mean_acceptance_length"])]
        cells += [_share(row["drafted_share"]), "" if rows else ratio]
        rows.append(cells)
    return rows


def _ratio(ratio: dict[str, float] | None) -> str:
    return "-" if ratio is None else f"{ratio['median']:.2f} ({ratio['min']:.2f}-{ratio['max']:.2f})"


def _text(value: float | None) -> str:
    return "-" if value is None else f"{value:,}"


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.0%}"
