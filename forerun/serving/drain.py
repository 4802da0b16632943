"""The end of a service that is told to stop: its streams hear of it while there is time to move their sequences."""

from collections.abc import Iterator
from contextlib import contextmanager

from forerun.errors import ServiceUnavailable
from forerun.rpc.messages import Draining
from forerun.serving.session import ReplyBox


class Drain:
    """Once begun, every open stream was told to leave, and no other opens."""

    def __init__(self) -> None:
        self._has_begun = False
        self._boxes: set[ReplyBox] = set()

    @property
    def num_open(self) -> int:
        """Streams that are open."""
        return len(self._boxes)

    def begin(self) -> None:
        """Tells every open stream; each goes on as long as it is open."""
        self._has_begun = True
        for box in self._boxes:
            box.put(Draining())

    @contextmanager
    def telling(self, box: ReplyBox) -> Iterator[None]:
        """The stream of this box is open until the block is left. Raises ServiceUnavailable once draining."""
        if self._has_begun:
            raise ServiceUnavailable("the service is draining; open the sequence on another replica")
        self._boxes.add(box)
        try:
            yield
        finally:
            self._boxes.discard(box)
