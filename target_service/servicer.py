"""The gRPC face of the target."""

from typing import Any

import grpc

from forerun.errors import InvalidRequest
from forerun.rpc import convert
from forerun.serving import stream
from forerun.serving.drain import Drain
from forerun.serving.model_service import ModelService
from forerun.serving.session import ReplyBox
from forerun.telemetry.context import TRACEPARENT
from forerun.types import Verification
from forerun.v1 import common_pb2, target_pb2, target_pb2_grpc
from target_service.session import TargetSession
from target_service.verifier import Verifier


class TargetServicer(target_pb2_grpc.TargetServiceServicer):
    """One Verify stream is one sequence of the engine's batch."""

    def __init__(self, service: ModelService, drain: Drain) -> None:
        self._service, self._drain = service, drain

    async def Verify(self, request_iterator: Any, context: Any) -> None:  # noqa: N802
        def open_session(opened: target_pb2.TargetOpen, box: ReplyBox) -> TargetSession:
            return self._session(opened, box, dict(context.invocation_metadata()).get(TRACEPARENT))

        await stream.serve(context, target_pb2.TargetReply, open_session, self._drain)

    async def Info(self, request: common_pb2.InfoRequest, context: Any) -> common_pb2.Info:  # noqa: N802
        return convert.info_to_pb(self._service.info("target", verifications=tuple(Verification)))

    async def Vocabulary(self, request: common_pb2.VocabularyRequest, context: Any) -> common_pb2.Vocabulary:  # noqa: N802
        return common_pb2.Vocabulary(tokens=self._service.text.tokens)

    def _session(self, opened: target_pb2.TargetOpen, box: ReplyBox, traceparent: str | None) -> TargetSession:
        service = self._service
        if not opened.prompt:
            raise InvalidRequest("a prompt has at least one token", "prompt")
        verifier = Verifier(
            convert.sampling_from_pb(opened.sampling),
            opened.num_prompt_tokens,
            opened.seed,
            opened.choice,
            service.text.vocab_size,
            opened.num_logprobs if opened.HasField("num_logprobs") else None,
        )
        return TargetSession(
            opened,
            verifier,
            service.engine.loop,
            service.engine.max_model_len,
            service.text.vocab_size,
            box.put,
            service.metrics,
            service.tracing,
            traceparent,
        )


def add_to(server: grpc.aio.Server, drain: Drain, service: ModelService) -> None:
    """Has `server` serve it."""
    servicer = TargetServicer(service, drain)
    target_pb2_grpc.add_TargetServiceServicer_to_server(servicer, server)  # type: ignore[no-untyped-call]
