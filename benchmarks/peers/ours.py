"""Forerun as a client sees it: streams over REST from `forerun up`, speculation left to it or off."""

import asyncio
import contextlib
import json
import time
from collections.abc import Iterator, Sequence
from typing import Any

import httpx

from benchmarks.peers.job import Arrivals, Job
from benchmarks.peers.system import Failed
from benchmarks.trio import running

NAMES = ("forerun", "forerun-alone", "forerun-bf16", "forerun-bf16-alone")
"""Default precision and bf16, each with the bundled draft and without any."""

ALONE, BF16 = "-alone", "-bf16"
CACHE_TOKENS = 40960  # sixteen of the longest prompts; the default would take a share of what the peers need
TIMEOUT_S = 300.0


class Ours:
    """Streams from one running trio."""

    max_batch = 1 << 30

    def __init__(self, name: str, url: str) -> None:
        self.name = name
        self._url = url
        self._extra: dict[str, Any] = {"speculative": {"enabled": False}} if name.endswith(ALONE) else {}

    def ask(self, job: Job) -> Arrivals:
        """See `System.ask`."""
        try:
            return asyncio.run(self._ask(job))
        except httpx.HTTPError as error:
            raise Failed(f"{type(error).__name__}: {error}") from error

    async def _ask(self, job: Job) -> Arrivals:
        async with httpx.AsyncClient(timeout=TIMEOUT_S, limits=httpx.Limits(max_connections=None)) as client:
            return list(await asyncio.gather(*(self._stream(client, job, ids) for ids in job.prompts)))

    async def _stream(self, client: httpx.AsyncClient, job: Job, ids: Sequence[int]) -> list[tuple[float, int]]:
        body = {
            "model": "",
            "prompt": list(ids),
            "max_tokens": job.num_tokens,
            "temperature": job.temperature,
            "ignore_eos": True,
            "stream": True,
            "return_token_ids": True,
            **self._extra,
        }
        pieces = []
        async with client.stream("POST", f"{self._url}/v1/completions", json=body) as reply:
            async for line in reply.aiter_lines():
                if line.startswith("data: {") and (num_tokens := _num_tokens(line.removeprefix("data: "))):
                    pieces.append((time.perf_counter(), num_tokens))
        return pieces


def _num_tokens(data: str) -> int:
    chunk = json.loads(data)
    if "error" in chunk:
        raise Failed(chunk["error"]["message"])
    return sum(len(choice.get("token_ids") or []) for choice in chunk["choices"])


@contextlib.contextmanager
def serving(names: Sequence[str]) -> Iterator[list[Ours]]:
    """Those of NAMES that are wanted, on one trio for each precision."""
    with contextlib.ExitStack() as stack:
        systems = []
        for precision, mark in (("auto", ""), ("bf16", BF16)):
            wanted = [name for name in names if name.removesuffix(ALONE) == f"forerun{mark}"]
            if wanted:
                flags, environ = ("--precision", precision), {"FORERUN_CACHE_TOKENS": str(CACHE_TOKENS)}
                trio = stack.enter_context(running(flags, environ))
                systems += [Ours(name, trio.url) for name in wanted]
        yield systems
