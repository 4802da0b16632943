"""A TCP connection from each rank to rank 0: orders go one way, and its end says that the other side is gone.

Collectives cannot be trusted with that: a rank that waits in one for a dead rank may wait for ever.
"""

import contextlib
import queue
import secrets
import socket
import struct
import threading
from collections.abc import Callable

import numpy as np

from forerun.errors import ServiceUnavailable

JOIN_S = 120.0
"""Until every rank is there: they start together, and load only afterwards."""

_HEADER = struct.Struct("<q")
_OVER = 0  # instead of the length of an order
_HELLO = struct.Struct("<16sq")
_KEEPALIVE = (("TCP_KEEPIDLE", 3), ("TCP_KEEPINTVL", 1), ("TCP_KEEPCNT", 5), ("TCP_USER_TIMEOUT", 8000))
"""A host that vanishes without a word is noticed within 8 s."""

OnLost = Callable[[ServiceUnavailable], None]


class Leading:
    """Rank 0's ends, to all others. `on_lost` is called from a thread of its own when one of them goes."""

    def __init__(self, host: str, size: int, on_lost: OnLost) -> None:
        self._listener = socket.create_server((host, 0), backlog=size)
        self._token = secrets.token_bytes(16)
        self._size, self._on_lost = size, on_lost
        self._ends: dict[int, socket.socket] = {}
        self._closing = False

    @property
    def invitation(self) -> str:
        """What the other ranks need to know to come."""
        return f"{self._listener.getsockname()[1]} {self._token.hex()}"

    def wait_for_all(self) -> None:
        """Raises ServiceUnavailable, naming those missing, where not all came within JOIN_S."""
        self._listener.settimeout(JOIN_S)
        while missing := sorted(set(range(1, self._size)) - set(self._ends)):
            try:
                end, _ = self._listener.accept()
            except TimeoutError:
                raise ServiceUnavailable(f"ranks {missing} of {self._size} did not come in {JOIN_S:.0f} s") from None
            self._welcome(end)
        self._listener.close()
        for rank in self._ends:
            threading.Thread(target=self._watch, args=(rank,), name=f"rank-{rank}", daemon=True).start()

    def tell(self, order: np.ndarray) -> None:
        """order `[n] int64` to all. Raises ServiceUnavailable, naming a rank that is gone."""
        message = _HEADER.pack(len(order)) + order.tobytes()
        for rank, end in self._ends.items():
            try:
                end.sendall(message)
            except OSError as error:
                raise self._lost(rank) from error

    def close(self) -> None:
        """There will be no more orders; nobody is missed who goes now."""
        self._closing = True
        for end in self._ends.values():
            with contextlib.suppress(OSError):
                end.sendall(_HEADER.pack(_OVER))

    def _welcome(self, end: socket.socket) -> None:
        """Takes it in if it knows the token."""
        end.settimeout(JOIN_S)
        try:
            token, rank = _HELLO.unpack(_read(end, _HELLO.size))
        except OSError:
            token, rank = b"", 0
        if not secrets.compare_digest(token, self._token):
            end.close()
            return
        _ready(end)
        self._ends[rank] = end

    def _watch(self, rank: int) -> None:
        """A rank says nothing: whatever can be read is its end."""
        with self._ends[rank] as end, contextlib.suppress(OSError):
            end.recv(1)
        if not self._closing:
            self._on_lost(self._lost(rank))

    def _lost(self, rank: int) -> ServiceUnavailable:
        return ServiceUnavailable(f"rank {rank} of {self._size} is gone; this replica ends")


class Following:
    """Another rank's end. `on_lost` is called from a thread of its own when rank 0 goes without having said stop."""

    def __init__(self, host: str, rank: int, invitation: str, on_lost: OnLost) -> None:
        port, token = invitation.split()
        self._end = socket.create_connection((host, int(port)), JOIN_S)
        self._end.sendall(_HELLO.pack(bytes.fromhex(token), rank))
        _ready(self._end)
        self._on_lost = on_lost
        self._heard: queue.SimpleQueue[np.ndarray | None] = queue.SimpleQueue()
        threading.Thread(target=self._listen, name="rank-0", daemon=True).start()

    def hear(self) -> np.ndarray | None:
        """The next order, `[n] int64`; None after the last."""
        return self._heard.get()

    def _listen(self) -> None:
        try:
            with self._end as end:
                while (length := _HEADER.unpack(_read(end, _HEADER.size))[0]) != _OVER:
                    self._heard.put(np.frombuffer(_read(end, 8 * length), np.int64))
            self._heard.put(None)
        except OSError as error:
            self._on_lost(ServiceUnavailable(f"rank 0 is gone ({error}); this rank ends"))


def _ready(end: socket.socket) -> None:
    end.settimeout(None)
    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    end.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEPALIVE:
        if hasattr(socket, name):
            end.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def _read(end: socket.socket, size: int) -> bytearray:
    """So many bytes, in memory of their own. Raises OSError where the other side ends first."""
    received = bytearray(size)
    rest = memoryview(received)
    while rest:
        count = end.recv_into(rest)
        if not count:
            raise ConnectionError("the connection was closed")
        rest = rest[count:]
    return received
