"""One service as a child process: started, stopped, and its last words kept."""

import asyncio
import contextlib
import os
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from forerun.tether import tethered

# Threads that wait look out for work for some 0.1 ms, which carries them over the short gaps within a step, and then
# sleep, for they must not burn the other service's core: benchmarks/threads.py compares.
ENVIRON = {"OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "2000", "KMP_BLOCKTIME": "0", "PYTHONUNBUFFERED": "1"}
STOP_TIMEOUT_S = 15.0  # more than the grace that services give to running streams


@dataclass(frozen=True)
class Service:
    """What to run and where it will listen. `module_args` follow `python -m`; what the user set in `environ` wins.

    death_signal: what it gets when its parent is gone.
    """

    name: str
    module_args: Sequence[str]
    port: int
    environ: Mapping[str, str] = field(default_factory=dict)
    death_signal: int = signal.SIGTERM


class Child:
    """A running service. It has a session of its own, so that Ctrl-C reaches the supervisor alone."""

    def __init__(self, service: Service, log: Path, process: asyncio.subprocess.Process) -> None:
        self.service = service
        self.log = log
        self._process = process

    @classmethod
    async def start(cls, service: Service, log_folder: Path) -> "Child":
        """Starts `service`; what it prints goes into LOG_FOLDER/NAME.log, which begins anew."""
        log = log_folder / f"{service.name}.log"
        command = tethered(service.death_signal, "-m", *service.module_args)
        with log.open("wb") as output:
            process = await asyncio.create_subprocess_exec(
                *command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={**service.environ, **os.environ},
                start_new_session=True,
            )
        return cls(service, log, process)

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """The exit status, None while it runs."""
        return self._process.returncode

    async def wait(self) -> int:
        """Waits for the end; returns the exit status."""
        return await self._process.wait()

    async def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """Asks it to drain and end; kills it where it does not within timeout_s."""
        with contextlib.suppress(ProcessLookupError):
            if self.returncode is None:
                self._process.terminate()
        try:
            await asyncio.wait_for(self._process.wait(), timeout_s)
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()

    def last_words(self, num_lines: int = 20) -> str:
        """The end of what it printed."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-num_lines:])
