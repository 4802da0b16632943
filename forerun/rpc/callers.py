"""Which certificates may call: a CA signs for draft, target and gateway alike, yet only the gateway makes calls."""

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

import grpc

_KINDS = ("unary_unary", "unary_stream", "stream_unary", "stream_stream")


class OnlyCallers(grpc.aio.ServerInterceptor):  # type: ignore[type-arg]
    """Refuses every call of a certificate that carries none of `names`, with PERMISSION_DENIED."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = frozenset(name.encode() for name in names)

    async def intercept_service(self, continuation: Callable[[Any], Awaitable[Any]], details: Any) -> Any:
        """See grpc.aio.ServerInterceptor: the certificate is known only where the call is handled."""
        handler = await continuation(details)
        if handler is None:
            return None
        return handler._replace(
            **{kind: self._guarded(serve) for kind in _KINDS if (serve := getattr(handler, kind)) is not None}
        )

    def _guarded(self, serve: Callable[..., Any]) -> Callable[..., Any]:
        async def call(request: Any, context: Any) -> Any:
            await self._check(context)
            return await serve(request, context)

        async def stream(request: Any, context: Any) -> AsyncIterator[Any]:
            await self._check(context)
            async for response in serve(request, context):
                yield response

        return stream if inspect.isasyncgenfunction(serve) else call

    async def _check(self, context: Any) -> None:
        shown = context.auth_context()
        if not self._names.intersection(shown.get("x509_subject_alternative_name", ())):
            await context.abort(grpc.StatusCode.PERMISSION_DENIED, "this certificate's name may not call this service")
