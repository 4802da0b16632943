"""Replicas from a page over HTTP, as the supervisor of a Ray cluster has one: a host:port a line."""

import asyncio
import urllib.request
from collections.abc import Callable
from http.client import HTTPException
from typing import Final

from forerun.errors import ServiceUnavailable
from gateway.place import Place

SCHEMES: Final = ("http://", "https://")
TIMEOUT_S = 5.0
MAX_BYTES = 1 << 20


class Page:
    """Whatever the page lists at the moment; a page that cannot be read or understood tells nothing."""

    def __init__(self, url: str, read: Callable[[str], str] | None = None) -> None:
        self._url, self._read = url, read or _read

    async def places(self) -> frozenset[Place]:
        """All of them, now. Raises ServiceUnavailable where that cannot be told."""
        try:
            text = await asyncio.to_thread(self._read, self._url)
            return frozenset(_place(line.strip()) for line in text.splitlines() if line.strip())
        except (OSError, ValueError, HTTPException) as error:
            raise ServiceUnavailable(f"{self._url} lists no replicas: {error}") from error


def _place(line: str) -> Place:
    host, _, port = line.rpartition(":")
    if not host or not port.isdecimal() or any(mark in host for mark in "/ <"):
        raise ValueError(f"{line[:80]!r} is not host:port")
    return Place(line, host.strip("[]"))


def _read(url: str) -> str:
    with urllib.request.urlopen(url, timeout=TIMEOUT_S) as answer:  # noqa: S310
        body: bytes = answer.read(MAX_BYTES)
    return body.decode()
