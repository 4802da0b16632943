"""The gRPC face of the draft."""

from typing import Any

import grpc

from draft_service.methods import Method
from forerun.rpc import convert
from forerun.serving import stream
from forerun.serving.drain import Drain
from forerun.serving.session import ReplyBox, Session
from forerun.telemetry.context import TRACEPARENT
from forerun.v1 import common_pb2, draft_pb2, draft_pb2_grpc


class DraftServicer(draft_pb2_grpc.DraftServiceServicer):
    """One Draft stream is one sequence."""

    def __init__(self, method: Method, drain: Drain) -> None:
        self._method, self._drain = method, drain

    async def Draft(self, request_iterator: Any, context: Any) -> None:  # noqa: N802
        def open_session(opened: draft_pb2.DraftOpen, box: ReplyBox) -> Session:
            return self._method.session(opened, box, dict(context.invocation_metadata()).get(TRACEPARENT))

        await stream.serve(context, draft_pb2.DraftReply, open_session, self._drain)

    async def Info(self, request: common_pb2.InfoRequest, context: Any) -> common_pb2.Info:  # noqa: N802
        return convert.info_to_pb(self._method.info())

    async def Vocabulary(self, request: common_pb2.VocabularyRequest, context: Any) -> common_pb2.Vocabulary:  # noqa: N802
        return common_pb2.Vocabulary(tokens=self._method.tokens)


def add_to(server: grpc.aio.Server, drain: Drain, method: Method) -> None:
    """Has `server` serve it."""
    servicer = DraftServicer(method, drain)
    draft_pb2_grpc.add_DraftServiceServicer_to_server(servicer, server)  # type: ignore[no-untyped-call]
