"""Where a replica is."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Place:
    """A replica's address, host:port, and the name that it was found under, which its certificate has to bear."""

    address: str
    name: str
