"""What `forerun up` shows: a spinner with a clock on a terminal, plain lines elsewhere, and one table at the end."""

from pathlib import Path

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from forerun.up.config import UpConfig
from forerun.up.plan import Plan


class ConsoleDisplay:
    """Shows the present step until the next; usable as a context that ends the spinner."""

    def __init__(self, console: Console) -> None:
        self._console = console
        columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
        self._progress = Progress(*columns, console=console, transient=True)

    def __enter__(self) -> "ConsoleDisplay":
        if self._console.is_terminal:
            self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def step(self, text: str) -> None:
        """Shows what is waited for now."""
        if self._console.is_terminal:
            for task in self._progress.task_ids:
                self._progress.remove_task(task)
            self._progress.add_task(text)
        else:
            self.note(text)

    def note(self, text: str) -> None:
        """Prints a line that stays."""
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)


def address_table(config: UpConfig, plan: Plan, logs: Path) -> Table:
    """Where everything listens and what it serves."""
    table = Table(title="Forerun is serving", title_justify="left")
    for column in ("service", "address", "model"):
        table.add_column(column, overflow="fold")
    table.add_row("REST", rest_url(config), plan.model)
    table.add_row("gateway gRPC", f"{config.host}:{config.grpc_port}", plan.model)
    table.add_row("draft", f"{config.host}:{config.draft_port}", plan.draft_model)
    table.add_row("target", f"{config.host}:{config.target_port}", plan.model)
    table.add_row("logs", str(logs), "")
    return table


def rest_url(config: UpConfig) -> str:
    """Where clients of the REST API go."""
    return f"http://{config.host}:{config.http_port}"
