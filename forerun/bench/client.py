"""A client of an OpenAI-compatible REST API that notes when each piece of an answer came."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any

import httpx2

from forerun.bench.answer import Answer
from forerun.bench.refusals import refusal
from forerun.errors import DeadlineExceeded, ServiceUnavailable

CONNECT_S = 10.0
IDLE_S = 2.0  # a connection is let go before servers close it, which is after 5 s and more


class Client:
    """Connections stay open from answer to answer. Every method raises a ForerunError that says what went wrong."""

    def __init__(self, url: str, api_key: str, timeout_s: float) -> None:
        self._url, self._timeout_s = url, timeout_s
        self._http = httpx2.AsyncClient(
            base_url=url,
            headers={"authorization": f"Bearer {api_key}"} if api_key else {},
            timeout=httpx2.Timeout(timeout_s, connect=CONNECT_S),
            limits=httpx2.Limits(max_connections=None, keepalive_expiry=IDLE_S),
        )

    async def __aenter__(self) -> "Client":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._http.aclose()

    async def models(self) -> list[str]:
        """The names of what is served."""
        with self._faults():
            response = await self._http.get("/v1/models")
            await _check(response)
            return [str(model["id"]) for model in response.json()["data"]]

    async def chat(self, body: dict[str, Any]) -> Answer:
        """The answer to one request, streamed to its end, with its usage."""
        request = {**body, "stream": True, "stream_options": {"include_usage": True}}
        answer = Answer(time.perf_counter())
        with self._faults():
            async with self._http.sse("/v1/chat/completions", method="POST", json=request) as events:
                await _check(events.response)
                async for event in events:
                    if event.data != "[DONE]":
                        answer.take(event.json(), time.perf_counter())  # type: ignore[arg-type]
        if answer.num_tokens is None:
            raise ServiceUnavailable("the answer ended without usage, so its tokens cannot be counted")
        return answer

    @contextmanager
    def _faults(self) -> Iterator[None]:
        try:
            yield
        except httpx2.ConnectError as error:
            raise ServiceUnavailable(f"no server at {self._url}: {error}; start one with `forerun up`") from error
        except httpx2.TimeoutException as error:
            told = f"nothing came from {self._url} for {self._timeout_s:g} s (--timeout-s)"
            raise DeadlineExceeded(told) from error
        except httpx2.HTTPError as error:
            raise ServiceUnavailable(f"the connection broke: {error or type(error).__name__}") from error
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise ServiceUnavailable(f"{self._url} does not speak OpenAI's API: {error!r}") from error


async def _check(response: httpx2.Response) -> None:
    if response.status_code != httpx2.codes.OK:
        body = await response.aread()
        raise refusal(response.status_code, body.decode(errors="replace"))
