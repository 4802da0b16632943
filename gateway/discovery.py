"""Where replicas are found: listed, in DNS, or wherever a source of another kind knows; asked again and again."""

import asyncio
import contextlib
import logging
import socket
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Generic, Protocol, TypeVar

from forerun.errors import ConfigError, ServiceUnavailable
from forerun.rpc.clients import Peer
from gateway.page import SCHEMES, Page
from gateway.place import Place
from gateway.replicas import Replicas

C = TypeVar("C", bound=Peer)

DNS = "dns:///"
ASK_S = 5.0  # between two questions to a source
ASK_SOON_S = 1.0  # the same after a replica failed
TIMEOUT_S = 5.0
_log = logging.getLogger("forerun.discovery")


class Source(Protocol):
    """Knows where replicas of a service are. Another kind (a cluster's own registry) is one more class like these."""

    async def places(self) -> frozenset[Place]:
        """All of them, now. Raises ServiceUnavailable where that cannot be told."""
        ...


class Listed:
    """One address that stays; a name in it is left to the connection."""

    def __init__(self, host: str, port: int) -> None:
        self._place = Place(f"{host}:{port}", host.strip("[]"))

    async def places(self) -> frozenset[Place]:
        return frozenset((self._place,))


Resolve = Callable[[str, int], Awaitable[list[tuple[Any, ...]]]]


class Dns:
    """Every address of a name, as a headless Kubernetes Service has one for each ready pod."""

    def __init__(self, name: str, port: int, resolve: Resolve | None = None) -> None:
        self._name, self._port = name, port
        self._resolve = resolve or _getaddrinfo

    async def places(self) -> frozenset[Place]:
        try:
            answers = await asyncio.wait_for(self._resolve(self._name, self._port), TIMEOUT_S)
        except (OSError, TimeoutError, UnicodeError) as error:
            raise ServiceUnavailable(f"{self._name} cannot be resolved: {error or 'no answer'}") from error
        return frozenset(Place(_joined(*answer[4][:2]), self._name) for answer in answers)


def sources(texts: Sequence[str], flag: str) -> list[Source]:
    """What `host:port`, `dns:///name:port` and `http://host:port/page` stand for.

    Raises ConfigError, naming the flag, for anything else.
    """
    return [_source(text, flag) for text in texts]


class Discovery(Generic[C]):
    """Keeps `replicas` to what the sources say, until closed.

    A source that cannot be asked changes nothing: what it said last holds, and probes tell who of those is well.
    """

    def __init__(self, found_by: Sequence[Source], replicas: Replicas[C], connect: Callable[[Place], C]) -> None:
        self._replicas, self._connect = replicas, connect
        self._last: dict[Source, frozenset[Place]] = {source: frozenset() for source in found_by}
        self._known: dict[str, Place] = {}
        self._asking: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Asks every source once and looks at what it named. Raises ConfigError for a replica that does not fit."""
        await self._ask()
        await self._replicas.start()
        self._asking = asyncio.create_task(self._keep_asking())

    async def close(self) -> None:
        """Stops asking; closes the replicas."""
        if self._asking is not None:
            self._asking.cancel()
        await self._replicas.close()

    async def _keep_asking(self) -> None:
        while True:
            await asyncio.sleep(ASK_SOON_S)
            if any(replica.healthy for replica in self._replicas.all):
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._replicas.suspicion.wait(), ASK_S - ASK_SOON_S)
            self._replicas.suspicion.clear()
            await self._ask()

    async def _ask(self) -> None:
        troubles = await asyncio.gather(*(self._ask_one(source) for source in self._last))
        self._replicas.trouble = "; ".join(filter(None, troubles))
        now = {place.address: place for places in self._last.values() for place in places}
        for address in self._known.keys() - now.keys():
            _log.info("%s is no longer named", address)
            self._replicas.remove(address)
        for address in sorted(now.keys() - self._known.keys()):
            self._replicas.add(self._connect(now[address]))
        self._known = now

    async def _ask_one(self, source: Source) -> str:
        try:
            self._last[source] = await source.places()
        except ServiceUnavailable as error:
            return str(error)
        return ""


def _source(text: str, flag: str) -> Source:
    if text.startswith(SCHEMES):
        return Page(text)
    host, _, port = text.removeprefix(DNS).rpartition(":")
    if not host or not port.isdecimal() or "/" in host:
        raise ConfigError(f"{flag}: {text!r} is neither host:port nor {DNS}name:port nor http://…")
    return Dns(host, int(port)) if text.startswith(DNS) else Listed(host, int(port))


def _joined(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


async def _getaddrinfo(name: str, port: int) -> list[tuple[Any, ...]]:
    return list(await asyncio.get_running_loop().getaddrinfo(name, port, type=socket.SOCK_STREAM))
