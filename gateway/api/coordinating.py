"""What the faces need of the coordinator."""

from typing import Protocol

from gateway.generation import ChoiceRequest, ChoiceStats, Sink


class Coordinator(Protocol):
    """Generates one choice. Cancelling `run` aborts the sequence everywhere."""

    async def run(self, request: ChoiceRequest, sink: Sink) -> ChoiceStats:
        """Pushes tokens into `sink` until it gives a reason to finish.

        Raises InvalidRequest, Overloaded, ServiceUnavailable or SequenceFault.
        """
        ...
