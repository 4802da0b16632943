"""The REST application, put together from its dependencies."""

from collections.abc import Callable

from fastapi import FastAPI, Request
from starlette.exceptions import HTTPException
from starlette.responses import Response

import forerun
from gateway.api.body_schema import BodySchema
from gateway.api.core import Core
from gateway.api.errors import error_body
from gateway.api.guard import Guard
from gateway.api.http import json_response
from gateway.api.operations import OperationEndpoints
from gateway.api.rest import GeneratingEndpoints


def _no_metrics() -> tuple[bytes, str]:
    return b"", "text/plain; version=0.0.4; charset=utf-8"


def create_app(
    core: Core,
    heartbeat: Callable[[], str] = str,
    metrics: Callable[[], tuple[bytes, str]] = _no_metrics,
) -> FastAPI:
    """Returns the REST application.

    heartbeat: "" while the gateway lives, else what is wrong. metrics: a scrape's content and its content type.
    """
    app = FastAPI(title="Forerun", version=forerun.__version__)
    generating = GeneratingEndpoints(core)
    operations = OperationEndpoints(core, heartbeat, metrics)
    bodies = BodySchema(core.model, core.limits)
    for path, endpoint, schema in (
        ("/v1/chat/completions", generating.chat, bodies.chat()),
        ("/v1/completions", generating.completion, bodies.completion()),
        ("/tokenize", operations.tokenize, bodies.tokenize()),
        ("/detokenize", operations.detokenize, bodies.detokenize()),
    ):
        body = {"required": True, "content": {"application/json": {"schema": schema}}}
        app.add_api_route(path, endpoint, methods=["POST"], response_model=None, openapi_extra={"requestBody": body})
    for path, endpoint in (
        ("/v1/models", operations.models),
        ("/v1/models/{name:path}", operations.model),
        ("/health", operations.health),
        ("/ready", operations.ready),
        ("/metrics", operations.metrics),
        ("/version", operations.version),
    ):
        app.add_api_route(path, endpoint, methods=["GET"], response_model=None)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(Exception, _unforeseen)
    app.add_middleware(Guard, clients=core.clients)
    return app


async def _http_error(request: Request, error: Exception) -> Response:
    """Unknown paths and methods, in OpenAI's shape."""
    status = error.status_code if isinstance(error, HTTPException) else 500
    told = f"{request.method} {request.url.path[:200]}: {getattr(error, 'detail', 'failed')}"
    body = {"error": {"message": told, "type": "invalid_request_error", "param": None, "code": None}}
    return json_response(body, status, getattr(error, "headers", None))


async def _unforeseen(request: Request, error: Exception) -> Response:
    return json_response(error_body(error), 500)
