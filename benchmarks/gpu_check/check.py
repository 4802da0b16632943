"""What a check is: a function from where it runs to findings, one a line of the table."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch

OK, FAILED, SKIPPED, MEASURED = "ok", "failed", "skipped", "measured"


@dataclass(frozen=True, slots=True)
class Finding:
    """status: one of the above; figure: what was seen, in words; value: the number for whoever compares runs."""

    name: str
    status: str
    figure: str = ""
    value: float | None = None


@dataclass(frozen=True, slots=True)
class Place:
    """Where a check runs. A rehearsal has tiny shapes, on a CPU too: it shows that the script itself works."""

    device: torch.device
    is_rehearsal: bool = False

    @property
    def on_gpu(self) -> bool:
        return self.device.type == "cuda"


Check = Callable[[Place], Iterator[Finding]]


class Skip(Exception):
    """This check cannot run here, and why."""


def judged(name: str, is_good: bool, figure: str, value: float | None = None) -> Finding:
    """ok or failed."""
    return Finding(name, OK if is_good else FAILED, figure, value)
