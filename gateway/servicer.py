"""gRPC's `Generate`: the same requests, checks and runs as REST, in protobuf."""

import asyncio
import contextlib
import math
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

import grpc

from forerun.errors import DeadlineExceeded
from forerun.rpc.status import abort
from forerun.types import TokenLogprobs
from forerun.v1 import gateway_pb2, gateway_pb2_grpc
from gateway.api.core import Core
from gateway.api.http import Stalled, off_loop, taken
from gateway.api.job import Job, Piece
from gateway.api.runner import Run
from gateway.api.totals import Totals
from gateway.text import Text

_PLAIN = (
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "presence_penalty",
    "frequency_penalty",
    "repetition_penalty",
    "seed",
    "n",
    "max_tokens",
    "min_tokens",
    "ignore_eos",
    "cache_salt",
)
_EXTENSION = ("enabled", "num_draft_tokens", "verification")


class GatewayServicer(gateway_pb2_grpc.GatewayServiceServicer):
    """Streams the pieces of every choice as they come, then one message with the usage of the whole request."""

    def __init__(self, core: Core) -> None:
        self._core = core

    async def Generate(  # noqa: N802 - the name is the protocol's
        self, request: gateway_pb2.GenerateRequest, context: "grpc.aio.ServicerContext[Any, Any]"
    ) -> None:
        """See protos/forerun/v1/gateway.proto; errors end the call with a rich status.

        A client that takes nothing for STALLED_S has left.
        """
        request_id = "gen-" + uuid.uuid4().hex
        client = _Client(context)
        metadata = {str(key): str(value) for key, value in context.invocation_metadata() or ()}
        try:
            with self._core.clients.inside(metadata.get("authorization", "")) as tenant:
                job = await self._read(request, request_id, metadata, tenant)
                async with self._core.running(job, request_id, metadata.get("traceparent")) as run:
                    responses = _Responses(self._core.text, job, request_id, run)
                    async for piece in run.pieces():
                        await client.take(responses.of(piece))
                    await client.take(_last(request_id, run.totals))
        except Stalled as error:
            with contextlib.suppress(grpc.aio.BaseError):
                await client.told(error)
        except Exception as error:
            await abort(context, error)

    async def _read(
        self, request: gateway_pb2.GenerateRequest, request_id: str, metadata: Mapping[str, str], tenant: str
    ) -> Job:
        is_chat = request.WhichOneof("prompt") == "chat"
        try:
            read = self._core.requests.chat if is_chat else self._core.requests.completion
            return await off_loop(request.ByteSize(), lambda: read(request_body(request), tenant))
        except Exception as error:
            endpoint = "chat" if is_chat else "completion"
            self._core.refused(endpoint, error, request_id, metadata.get("traceparent"))
            raise


def request_body(request: gateway_pb2.GenerateRequest) -> dict[str, Any]:
    """Returns the REST body that means the same."""
    body: dict[str, Any] = {name: getattr(request, name) for name in _PLAIN if request.HasField(name)}
    body |= {"model": request.model, "stream": True, **_prompt(request), **_logprobs(request)}
    body["logit_bias"] = {str(token): bias for token, bias in request.logit_bias.items()}
    body["stop"] = list(request.stop)
    body["stop_token_ids"] = list(request.stop_token_ids)
    if request.HasField("echo"):
        body["echo"] = request.echo
    if request.HasField("speculative"):
        extension = request.speculative
        body["speculative"] = {name: getattr(extension, name) for name in _EXTENSION if extension.HasField(name)}
    return body


def _prompt(request: gateway_pb2.GenerateRequest) -> dict[str, Any]:
    kind = request.WhichOneof("prompt")
    if kind == "chat":
        return {"messages": [{"role": each.role, "content": each.content} for each in request.chat.messages]}
    if kind == "tokens":
        return {"prompt": [list(request.tokens.ids)]}
    return {"prompt": request.text}


def _logprobs(request: gateway_pb2.GenerateRequest) -> dict[str, Any]:
    if not request.HasField("logprobs"):
        return {}
    if request.WhichOneof("prompt") == "chat":
        return {"logprobs": True, "top_logprobs": request.logprobs}
    return {"logprobs": request.logprobs}


class _Client:
    """Who takes the responses. A write that is not taken in time stays under way: nothing can overtake it."""

    def __init__(self, context: "grpc.aio.ServicerContext[Any, Any]") -> None:
        self._context = context
        self._writing: asyncio.Future[None] | None = None

    async def take(self, response: gateway_pb2.GenerateResponse) -> None:
        """Returns when it is taken. Raises Stalled in the end, CancelledError where the client has left."""
        self._writing = asyncio.ensure_future(self._context.write(response))
        self._writing.add_done_callback(_heard)
        try:
            await taken(asyncio.shield(self._writing))
        except grpc.aio.BaseError as error:
            raise asyncio.CancelledError("the client has left") from error

    async def told(self, error: Stalled) -> None:
        """Ends the call as soon as the client reads on after all, or leaves."""
        if self._writing is not None:
            await self._writing
        await abort(self._context, DeadlineExceeded(str(error)))


def _heard(writing: "asyncio.Future[None]") -> None:
    """Whoever was cancelled while it was under way does not hear how it ended."""
    if not writing.cancelled():
        writing.exception()


class _Responses:
    """Writes the pieces of one request; echo puts the prompt's text, ids and logprobs before each choice."""

    def __init__(self, text: Text, job: Job, request_id: str, run: Run) -> None:
        self._text = text
        self._job = job
        self._request_id = request_id
        self._run = run
        self._echoed = [not job.echo] * job.num_choices

    def of(self, piece: Piece) -> gateway_pb2.GenerateResponse:
        response = gateway_pb2.GenerateResponse(
            id=self._request_id,
            index=piece.index,
            text=piece.text,
            token_ids=piece.token_ids,
            logprobs=self._entries(piece.logprob_ids, piece.logprobs),
            finish_reason=piece.finish_reason or "",
        )
        return response if self._echoed[piece.index] else self._with_prompt(response)

    def _with_prompt(self, response: gateway_pb2.GenerateResponse) -> gateway_pb2.GenerateResponse:
        """The first token of a prompt has no law: its logprob is NaN."""
        self._echoed[response.index] = True
        prompt = self._job.prompts[response.index // self._job.n]
        laws = self._run.prompt_logprobs(response.index)
        first = [TokenLogprobs(math.nan)] if self._job.num_logprobs is not None else []
        return gateway_pb2.GenerateResponse(
            id=response.id,
            index=response.index,
            text=prompt.text + response.text,
            token_ids=[*prompt.ids, *response.token_ids],
            logprobs=[*self._entries(prompt.ids if first else (), [*first, *laws]), *response.logprobs],
            finish_reason=response.finish_reason,
        )

    def _entries(self, ids: Sequence[int], laws: Sequence[TokenLogprobs]) -> list[gateway_pb2.GeneratedLogprobs]:
        return [_generated(self._text, *pair) for pair in zip(ids, laws, strict=True)]


def _generated(text: Text, token: int, logprobs: TokenLogprobs) -> gateway_pb2.GeneratedLogprobs:
    return gateway_pb2.GeneratedLogprobs(
        token=text.token_text(token),
        logprob=logprobs.logprob,
        top_tokens=[text.token_text(other) for other in logprobs.top_ids],
        top_logprobs=logprobs.top_logprobs,
    )


def _last(request_id: str, totals: Totals) -> gateway_pb2.GenerateResponse:
    usage = gateway_pb2.Usage(
        prompt_tokens=totals.num_prompt_tokens,
        completion_tokens=totals.num_generated_tokens,
        cached_tokens=totals.stats.num_cached_tokens,
    )
    return gateway_pb2.GenerateResponse(
        id=request_id, usage=usage, speculative=gateway_pb2.SpeculativeStats(**totals.speculative())
    )


def add_to(server: grpc.aio.Server, core: Core) -> None:
    """Has `server` serve Generate."""
    gateway_pb2_grpc.add_GatewayServiceServicer_to_server(GatewayServicer(core), server)  # type: ignore[no-untyped-call]
