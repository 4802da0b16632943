"""Clients of the two services: a few channels a peer, one stream a sequence, unary calls for what is asked once."""

from collections.abc import Callable
from typing import Any, TypeVar

import grpc
from google.protobuf.message import Message

from forerun.errors import ForerunError, ServiceUnavailable
from forerun.rpc import convert
from forerun.rpc.channels import Channels, PeerTls
from forerun.rpc.server import KEEPALIVE, MAX_MESSAGE_BYTES
from forerun.rpc.status import error_of_rpc
from forerun.rpc.stream import ClientStream
from forerun.types import ServiceInfo
from forerun.v1 import common_pb2, draft_pb2, target_pb2

NUM_CHANNELS = 2  # one TCP connection serializes its streams; two are enough on a host of few cores
UNARY_TIMEOUT_S = 5.0
DRAFT_REPLIES = 16  # to one message: a proposal, and a few pushes ahead of the verdict
MAX_DRAFT_BYTES = 4 << 20  # a vocabulary is the most that a draft may have to say, and far more than a proposal

DraftStream = ClientStream[draft_pb2.DraftRequest, draft_pb2.DraftReply]
TargetStream = ClientStream[target_pb2.TargetRequest, target_pb2.TargetReply]
M = TypeVar("M", bound=Message)
Metadata = tuple[tuple[str, str], ...]

_OPTIONS = (
    *KEEPALIVE,
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_retries", 0),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 2_000),  # also how long one attempt to connect may take
    ("grpc.max_reconnect_backoff_ms", 2_000),
)


class Peer:
    """What both clients share: the channels to one address and its unary calls."""

    def __init__(
        self,
        address: str,
        service: str,
        method: str,
        num_channels: int = NUM_CHANNELS,
        tls: PeerTls | None = None,
        max_bytes: int = MAX_MESSAGE_BYTES,
    ) -> None:
        self.address, self._service, self._method = address, service, method
        self.name = f"{service} at {address}"
        options = (*_OPTIONS, ("grpc.max_receive_message_length", max_bytes))
        self._channels = Channels(address, num_channels, options, tls)

    async def info(self, timeout_s: float = UNARY_TIMEOUT_S) -> ServiceInfo:
        """What the service says of itself; raises ServiceUnavailable."""
        return convert.info_from_pb(await self._unary("Info", common_pb2.InfoRequest(), common_pb2.Info, timeout_s))

    async def vocabulary(self, timeout_s: float = UNARY_TIMEOUT_S) -> tuple[str, ...]:
        """The token of every id."""
        request = common_pb2.VocabularyRequest()
        return tuple((await self._unary("Vocabulary", request, common_pb2.Vocabulary, timeout_s)).tokens)

    async def close(self) -> None:
        """Ends every call and closes the connections."""
        await self._channels.close()

    async def _unary(self, method: str, request: Message, reply: type[M], timeout_s: float) -> M:
        call: Any = self._channels.first().unary_unary(
            f"/{self._service}/{method}",
            request_serializer=type(request).SerializeToString,
            response_deserializer=reply.FromString,
        )
        try:
            answer: M | None = await call(request, timeout=timeout_s)
        except grpc.RpcError as error:
            raise error_of_rpc(error, self.name) from error
        if answer is None:
            raise ServiceUnavailable(f"{self.name} answered bytes that are no {reply.__name__}")
        return answer

    def _call(self, request: type[Message], reply: type[Message], metadata: Metadata) -> Any:
        call: Any = self._channels.next().stream_stream(
            f"/{self._service}/{self._method}",
            request_serializer=request.SerializeToString,
            response_deserializer=reply.FromString,
        )
        return call(metadata=metadata)


class DraftClient(Peer):
    """Opens Draft streams; `traceparent` and the like travel as call metadata."""

    def __init__(self, address: str, num_channels: int = NUM_CHANNELS, tls: PeerTls | None = None) -> None:
        super().__init__(address, "forerun.v1.DraftService", "Draft", num_channels, tls, MAX_DRAFT_BYTES)

    def open(
        self,
        first: draft_pb2.DraftOpen,
        deliver: Callable[[draft_pb2.DraftReply | ForerunError], None],
        metadata: Metadata = (),
    ) -> DraftStream:
        """A stream whose replies go to `deliver`; an unreachable service is delivered as an error, too."""
        call = self._call(draft_pb2.DraftRequest, draft_pb2.DraftReply, metadata)
        return ClientStream(call, self.name, draft_pb2.DraftRequest(open=first), deliver, DRAFT_REPLIES)


class TargetClient(Peer):
    """Opens Verify streams; see DraftClient."""

    def __init__(self, address: str, num_channels: int = NUM_CHANNELS, tls: PeerTls | None = None) -> None:
        super().__init__(address, "forerun.v1.TargetService", "Verify", num_channels, tls)

    def open(
        self,
        first: target_pb2.TargetOpen,
        deliver: Callable[[target_pb2.TargetReply | ForerunError], None],
        metadata: Metadata = (),
    ) -> TargetStream:
        """A stream whose replies go to `deliver`; an unreachable service is delivered as an error, too."""
        call = self._call(target_pb2.TargetRequest, target_pb2.TargetReply, metadata)
        return ClientStream(call, self.name, target_pb2.TargetRequest(open=first), deliver)
