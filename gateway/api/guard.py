"""Stands before the REST application: no path but the open ones is answered without a key."""

from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

from starlette.types import ASGIApp, Receive, Scope, Send

from forerun.errors import Overloaded, Unauthenticated
from gateway.api.clients import Clients
from gateway.api.http import error_response

OPEN = frozenset({"/health", "/ready", "/metrics", "/version"})
TENANT = "forerun.tenant"


class Guard:
    """ASGI middleware: a request is refused before its body is read, and counts for its key until it is answered."""

    def __init__(self, app: ASGIApp, clients: Clients) -> None:
        self._app, self._clients = app, clients

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See the ASGI specification."""
        if scope["type"] != "http" or scope["path"] in OPEN:
            await self._app(scope, receive, send)
            return
        with ExitStack() as stack:
            try:
                scope[TENANT] = stack.enter_context(self._clients.inside(_authorization(scope)))
            except (Unauthenticated, Overloaded) as error:
                await error_response(error)(scope, receive, send)
                return
            await self._app(scope, receive, send)


def tenant_of(scope: Mapping[str, Any]) -> str:
    """Whose request it is."""
    return str(scope.get(TENANT, ""))


def _authorization(scope: Scope) -> str:
    found = (value for name, value in scope["headers"] if name == b"authorization")
    return str(next(found, b"").decode("latin-1"))
