"""Whether a service listens, and whether the gateway gave a real token."""

import asyncio
import contextlib
import http
import http.client
import json
import urllib.error
import urllib.request

_POLL_S = 0.1
_PROBE_TIMEOUT_S = 60.0


async def listening(host: str, port: int) -> None:
    """Returns once something accepts connections there."""
    while True:
        with contextlib.suppress(OSError):
            _, writer = await asyncio.open_connection(host, port)
            writer.close()
            await writer.wait_closed()
            return
        await asyncio.sleep(_POLL_S)


async def first_token(url: str, model: str) -> str:
    """Returns the text of one generated token, as soon as `url` gives one.

    Empty where that takes a key: such a gateway asks itself for one, and tells everybody that it came.
    """
    while True:
        text = await asyncio.to_thread(_try_token, url, model)
        if text is not None:
            return text
        await asyncio.sleep(_POLL_S)


def _try_token(url: str, model: str) -> str | None:
    body = {"model": model, "prompt": "The capital of France is", "max_tokens": 1, "temperature": 0}
    completion = urllib.request.Request(  # noqa: S310
        url + "/v1/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    try:
        return str(json.loads(_read(completion))["choices"][0]["text"])
    except urllib.error.HTTPError as error:
        return _ready(url) if error.code == http.HTTPStatus.UNAUTHORIZED else None
    except (OSError, http.client.HTTPException, ValueError, LookupError, TypeError):  # it is not there yet
        return None


def _ready(url: str) -> str | None:
    with contextlib.suppress(OSError, http.client.HTTPException):
        _read(urllib.request.Request(url + "/ready"))  # noqa: S310
        return ""
    return None


def _read(request: urllib.request.Request) -> bytes:
    with urllib.request.urlopen(request, timeout=_PROBE_TIMEOUT_S) as answer:  # noqa: S310
        return bytes(answer.read())
