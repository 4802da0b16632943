"""What `forerun distill` shows: a bar for each phase on a terminal, plain lines elsewhere."""

from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn


class Display:
    """One phase at a time; usable as a context that takes the bar away at its end."""

    def __init__(self, console: Console) -> None:
        self._console = console
        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f}%"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[told]}", markup=False),
        )
        self._progress = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
        self._task: TaskID | None = None

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def phase(self, name: str) -> None:
        """Begins another phase."""
        if self._task is not None:
            self._progress.remove_task(self._task)
        self._task = self._progress.add_task(name, total=1.0, told="")
        if not self._console.is_terminal:
            self.note(name)

    def show(self, share: float, told: str) -> None:
        """How much of the phase is over, and what there is to tell."""
        if self._task is not None:
            self._progress.update(self._task, completed=share, told=told)

    def note(self, text: str) -> None:
        """Prints a line that stays."""
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)
