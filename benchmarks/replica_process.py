"""A replica of a service that a benchmark strikes and brings back at the same address."""

import asyncio
import contextlib
import signal

from benchmarks.service import free_port, service
from forerun.errors import ForerunError
from forerun.rpc.clients import DraftClient, TargetClient

CLIENTS = {"target_service": TargetClient, "draft_service": DraftClient}


class ReplicaProcess:
    """Its process, whichever it is at present."""

    def __init__(self, module: str, *flags: str) -> None:
        self._module, self.address = module, f"127.0.0.1:{free_port()}"
        self._flags = (*flags, "--port", self.address.rpartition(":")[2])
        self._stack, self._struck = contextlib.ExitStack(), signal.SIGCONT

    def start(self) -> None:
        """Returns when it serves."""
        self._process = self._stack.enter_context(service(self._module, *self._flags, address=self.address))

    def strike(self, number: signal.Signals) -> None:
        """Sends it a signal."""
        self._struck = number
        self._process.send_signal(number)

    def restore(self) -> None:
        """Returns when it serves again, as another process unless it merely hung."""
        if self._struck is signal.SIGSTOP:
            self._process.send_signal(signal.SIGCONT)
        else:
            self._process.wait(60)
            self.end()
            self.start()

    def end(self) -> None:
        """Ends its process."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGCONT)
        self._stack.close()

    def num_sequences(self) -> int:
        """Sequences there; 0 where it does not answer."""
        return asyncio.run(self._ask())

    async def _ask(self) -> int:
        client = CLIENTS[self._module](self.address)
        try:
            info = await client.info()
        except ForerunError:
            return 0
        finally:
            await client.close()
        return info.num_running + info.num_waiting
