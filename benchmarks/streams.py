"""Streaming completions over REST with the moment at which each token came."""

import asyncio
import json
import time
from dataclasses import dataclass, field
from typing import Any

import httpx


@dataclass
class Timed:
    """One finished stream. arrivals: seconds on the monotonic clock, one per chunk; num_tokens by its usage."""

    arrivals: list[float] = field(default_factory=list)
    num_tokens: int = 0
    speculative: dict[str, Any] = field(default_factory=dict)

    @property
    def gaps(self) -> list[float]:
        """Seconds between chunks."""
        return [b - a for a, b in zip(self.arrivals, self.arrivals[1:], strict=False)]


async def stream(client: httpx.AsyncClient, url: str, body: dict[str, Any]) -> Timed:
    """Runs one completion to its end."""
    timed = Timed()
    request = {**body, "stream": True, "stream_options": {"include_usage": True}}
    async with client.stream("POST", f"{url}/v1/completions", json=request, timeout=600) as reply:
        reply.raise_for_status()
        async for line in reply.aiter_lines():
            if line.startswith("data: {"):
                _take(timed, json.loads(line[6:]))
    return timed


def _take(timed: Timed, chunk: dict[str, Any]) -> None:
    if "error" in chunk:
        raise RuntimeError(chunk["error"]["message"])
    if chunk.get("usage"):
        timed.num_tokens = chunk["usage"]["completion_tokens"]
        timed.speculative = chunk.get("speculative") or {}
    if chunk.get("choices"):
        timed.arrivals.append(time.monotonic())


async def tokens_per_s(client: httpx.AsyncClient, url: str, bodies: list[dict[str, Any]]) -> float:
    """Runs all at once; tokens of all after the first chunk of each, over the time from the last first chunk.

    Prefill is not counted: the figure is the rate of decoding with every stream in the batch.
    """
    timed = await asyncio.gather(*(stream(client, url, body) for body in bodies))
    start, end = max(t.arrivals[0] for t in timed), min(t.arrivals[-1] for t in timed)
    counted = sum(sum(start < at <= end for at in t.arrivals) for t in timed)
    return counted / (end - start)
