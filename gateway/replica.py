"""One replica of a service, as this gateway knows it."""

import asyncio
from typing import Generic, TypeVar

from forerun.rpc.clients import Peer
from forerun.types import ServiceInfo
from gateway.load import Load

C = TypeVar("C", bound=Peer)

FIRST_PAUSE_S, MAX_PAUSE_S = 1.0, 32.0  # between failures in a row with nothing good between


class Replica(Generic[C]):
    """One address: its client, what it last said of itself, and how many sequences of this gateway run there.

    `healthy` says that it answered when it was last looked at and did not fail since. One that answers and yet fails
    its sequences is avoided until `suspended_until`, twice as long each time, while there is another.
    """

    def __init__(self, client: C) -> None:
        self.client = client
        self.info: ServiceInfo | None = None
        self.healthy = False
        self.num_sequences = 0
        self.idle = asyncio.Event()
        self.idle.set()
        self.load = Load()
        self.complaint = ""
        self.answered_at = 0.0
        self.looking = asyncio.Lock()
        self.suspended_until = 0.0
        self._pause_s = FIRST_PAUSE_S

    @property
    def address(self) -> str:
        """Where it listens; its rank for a prompt goes by it."""
        return self.client.address

    @property
    def num_running(self) -> float:
        """Sequences there, those of other gateways as far as they show."""
        return self.load.num_sequences(self.num_sequences)

    @property
    def step_s(self) -> float | None:
        """Seconds of a step of late."""
        return self.load.step_s

    def joined(self) -> None:
        """A sequence opened there."""
        self.num_sequences += 1
        self.idle.clear()

    def left(self) -> None:
        """A sequence that ran there ended or moved."""
        self.num_sequences -= 1
        if self.num_sequences == 0:
            self.idle.set()

    def failed(self, now: float) -> None:
        """Sequences failed there: it is out until a probe finds it well, and avoided a while longer if that repeats."""
        self.healthy = False
        self.suspended_until = now + self._pause_s if self._pause_s > FIRST_PAUSE_S else now
        self._pause_s = min(2 * self._pause_s, MAX_PAUSE_S)

    def worked(self) -> None:
        """Something good came from it."""
        self._pause_s = FIRST_PAUSE_S
