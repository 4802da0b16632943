"""The connections to one address, replaced by new ones when the certificates change."""

import asyncio
import itertools
from dataclasses import dataclass

import grpc

from forerun.rpc.certificates import Certificates, Pems
from forerun.rpc.credentials import channel_credentials

RETIRED_S = 86_400.0  # calls that run on a retired connection are cut off then

Options = tuple[tuple[str, int | str], ...]


@dataclass(frozen=True, slots=True)
class PeerTls:
    """How peers are met: what they are shown, and the name in theirs; "" expects the host of their address."""

    certificates: Certificates
    name: str = ""


def found_as(name: str, tls: PeerTls | None) -> PeerTls | None:
    """`tls` for a peer that was found under `name`, which its certificate has to bear where no other is asked for."""
    return tls if tls is None or tls.name else PeerTls(tls.certificates, name)


class Channels:
    """A few channels, taken in turn. After a change of certificates calls begin on new ones; running ones go on."""

    def __init__(self, address: str, count: int, options: Options, tls: PeerTls | None = None) -> None:
        self._address, self._count, self._options, self._tls = address, count, options, tls
        self._retiring: set[asyncio.Task[None]] = set()
        self._retired: list[grpc.aio.Channel] = []
        self._pems = tls.certificates.current() if tls else None
        self._open(self._pems)

    def first(self) -> grpc.aio.Channel:
        """The channel of unary calls."""
        self._renew()
        return self._channels[0]

    def next(self) -> grpc.aio.Channel:
        """The channel of the next stream."""
        self._renew()
        return next(self._turn)

    async def ready(self) -> None:
        """Returns when all are connected."""
        await asyncio.gather(*(channel.channel_ready() for channel in self._channels))

    async def close(self) -> None:
        """Ends every call and closes the connections."""
        for task in self._retiring:
            task.cancel()
        for channel in (*self._channels, *self._retired):
            await channel.close(None)

    def _renew(self) -> None:
        pems = self._tls.certificates.current() if self._tls else None
        if pems is self._pems:
            return
        self._pems = pems
        for channel in self._channels:
            self._retired.append(channel)
            task = asyncio.create_task(self._retire(channel))
            self._retiring.add(task)
            task.add_done_callback(self._retiring.discard)
        self._open(pems)

    def _open(self, pems: Pems | None) -> None:
        self._channels = [self._channel(pems) for _ in range(self._count)]
        self._turn = itertools.cycle(self._channels)

    def _channel(self, pems: Pems | None) -> grpc.aio.Channel:
        if pems is None or self._tls is None:
            return grpc.aio.insecure_channel(self._address, options=self._options)
        named = (("grpc.ssl_target_name_override", self._tls.name),) if self._tls.name else ()
        return grpc.aio.secure_channel(self._address, channel_credentials(pems), options=(*self._options, *named))

    async def _retire(self, channel: grpc.aio.Channel) -> None:
        await channel.close(RETIRED_S)
        self._retired.remove(channel)
