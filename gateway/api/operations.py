"""The endpoints beside generation: models, tokenizer, health, metrics, version."""

from collections.abc import Callable, Mapping
from typing import Any

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

import forerun
from forerun.errors import InvalidRequest, ServiceUnavailable
from gateway.api.core import Core
from gateway.api.errors import error_body
from gateway.api.fields import Fields
from gateway.api.http import error_response, json_response, off_loop, parse_json, read_body
from gateway.api.prompts import Prompts
from gateway.api.sampling import token_id


class OperationEndpoints:
    """`heartbeat` returns "" while the gateway's loops live, else which does not; `metrics` a scrape and its type."""

    def __init__(self, core: Core, heartbeat: Callable[[], str], metrics: Callable[[], tuple[bytes, str]]) -> None:
        self._core = core
        self._heartbeat = heartbeat
        self._metrics = metrics
        self._prompts = Prompts(core.text, core.model, core.limits)

    async def models(self, request: Request) -> Response:
        """Lists the names that the model is served under."""
        return json_response({"object": "list", "data": [self._model(name) for name in self._core.model.names]})

    async def model(self, request: Request) -> Response:
        """Describes one model; names may contain slashes."""
        try:
            return json_response(self._model(self._core.model.check_name(request.path_params["name"])))
        except InvalidRequest as error:
            return error_response(error)

    async def tokenize(self, request: Request) -> Response:
        """Splits `prompt`, or the rendered `messages`, into ids (vLLM's shape)."""
        return await self._with_fields(request, self._tokenize)

    async def detokenize(self, request: Request) -> Response:
        """Joins `tokens` to text (vLLM's shape)."""
        return await self._with_fields(request, self._detokenize)

    async def health(self, request: Request) -> Response:
        """200 while this process works."""
        return _state(self._heartbeat())

    async def ready(self, request: Request) -> Response:
        """200 if a token was produced lately, or can be now, and new requests are taken."""
        if self._core.admission.draining:
            return _state("this gateway is shutting down")
        return _state(await self._core.freshness.check())

    async def metrics(self, request: Request) -> Response:
        """Prometheus' scrape."""
        content, content_type = self._metrics()
        return Response(content, headers={"content-type": content_type})

    async def version(self, request: Request) -> Response:
        """The version of this software."""
        return json_response({"version": forerun.__version__})

    async def _with_fields(self, request: Request, work: Callable[[Fields], Mapping[str, Any]]) -> Response:
        try:
            raw = await read_body(request, self._core.limits)
            return json_response(await off_loop(len(raw), lambda: work(self._fields(raw))))
        except InvalidRequest as error:
            return error_response(error)
        except ClientDisconnect:
            return Response(status_code=499)

    def _fields(self, raw: bytes) -> Fields:
        fields = Fields(parse_json(raw))
        self._core.model.check_name(fields.raw("model"))
        return fields

    def _tokenize(self, fields: Fields) -> dict[str, Any]:
        messages, prompt = fields.raw("messages"), fields.raw("prompt")
        return_strings = fields.boolean("return_token_strs")
        if (messages is None) == (prompt is None):
            raise InvalidRequest("give either prompt or messages", "prompt")
        if messages is not None:
            fields.boolean("add_special_tokens")
            ids = self._prompts.chat_ids(fields, messages)
        else:
            ids = self._prompts.text_ids(prompt, fields.boolean("add_special_tokens", True))
        fields.finish()
        strings = [self._core.text.token_text(token) for token in ids] if return_strings else None
        limit = self._core.model.max_model_len
        return {"count": len(ids), "max_model_len": limit, "tokens": ids, "token_strs": strings}

    def _detokenize(self, fields: Fields) -> dict[str, Any]:
        tokens = fields.raw("tokens")
        fields.finish()
        if not isinstance(tokens, list):
            raise InvalidRequest("tokens must be a list of token ids", "tokens")
        return {"prompt": self._core.text.decode([token_id(token, self._core.model, "tokens") for token in tokens])}

    def _model(self, name: str) -> dict[str, Any]:
        model = self._core.model
        return {
            "id": name,
            "object": "model",
            "created": model.created,
            "owned_by": "forerun",
            "root": model.names[0],
            "parent": None,
            "max_model_len": model.max_model_len,
        }


def _state(trouble: str) -> Response:
    if trouble:
        return json_response(error_body(ServiceUnavailable(trouble)), 503)
    return json_response({"status": "ok"})
