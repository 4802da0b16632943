"""What was measured, as one table."""

from collections.abc import Iterator
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

MIN_WIDTH = 88  # of the table: a narrower terminal breaks its lines, but no figure is cut
BUSY_SHARE = 0.8  # a client that computes more than this keeps its streams waiting
COLUMNS = (
    "at\nonce",
    "spec.",
    "done/\nfailed",
    "tokens\n/s",
    "TTFT\np50 ms",
    "TTFT\np99 ms",
    "TPOT\np50 ms",
    "TPOT\np99 ms",
    "gap\np99 ms",
    "accept\nrate",
    "accept\nlength",
    "drafts\nin",
)


def show(report: dict[str, Any], console: Console) -> None:
    """A row for each load and mode that was met; below it the ratios and what failed."""
    console.width = max(console.width, MIN_WIDTH)
    _say(console, _title(report["settings"]))
    table = Table(*COLUMNS, box=box.SIMPLE_HEAD, padding=0, show_edge=False)
    for column in table.columns:
        column.justify, column.no_wrap = "right", True
    for load in report["loads"]:
        for mode, row in load["speculation"].items():
            if row["num_done"] + row["num_failed"]:
                table.add_row(str(load["concurrency"]), mode, *_cells(row))
        table.add_section()
    console.print(table)
    for load in report["loads"]:
        for remark in _remarks(load):
            _say(console, f"{load['concurrency']} at once{remark}")


def _title(settings: dict[str, Any]) -> str:
    return (
        f"{settings['model']} at {settings['url']}: {settings['num_requests']} requests a window, up to "
        f"{settings['max_tokens']} tokens each, temperature {settings['temperature']:g}; rounds: {settings['rounds']}"
    )


def _cells(row: dict[str, Any]) -> list[str]:
    times = ("ttft_p50_ms", "ttft_p99_ms", "tpot_p50_ms", "tpot_p99_ms", "gap_p99_ms")
    cells = [f"{row['num_done']}/{row['num_failed']}", _number(row["tokens_per_s"])]
    cells += [_number(row[name]) for name in times]
    length = row["mean_acceptance_length"]
    return [*cells, _share(row["acceptance_rate"]), _missing(length, ".2f"), _share(row["drafted_share"])]


def _remarks(load: dict[str, Any]) -> Iterator[str]:
    if ratio := load["on_over_off"]:
        spread = f"{ratio['min']:.2f} to {ratio['max']:.2f} in {ratio['runs']} pairs of windows"
        yield f": speculation on over off, tokens/s: {ratio['median']:.2f} ({spread})"
    busy = max(row["client_busy_share"] for row in load["speculation"].values())
    if busy > BUSY_SHARE:
        yield f": this client was busy {busy:.0%} of the time, so it may be the limit"
    for failure, count in load["failures"].items():
        yield f", {count} failed: {failure}"


def _number(value: float | None) -> str:
    return _missing(value, ".1f" if value is None or value < 100 else ".0f")


def _share(value: float | None) -> str:
    return _missing(value, ".0%")


def _missing(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


def _say(console: Console, text: str) -> None:
    console.print(text, highlight=False, markup=False, soft_wrap=True)
