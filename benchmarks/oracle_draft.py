"""A draft of set talent, for benchmarks: it knows the target's answers and errs at a set rate, at a set pace.

    python -m benchmarks.oracle_draft --port 50061 --model M --answers FILE --acceptance 0.8 --step-s 0.002

FILE is JSON: a list of {"prompt": ids, "answer": ids}. Whether it errs at a position of an answer is a hash of both,
so that every drafted token is right with the same probability and independently of its neighbours. It sleeps instead of
computing: a draft on a device of its own.
"""

import argparse
import asyncio
import json
import signal
import time
from collections.abc import AsyncIterator, Sequence
from hashlib import blake2b
from pathlib import Path

import grpc

from forerun.models.resolve import resolve
from forerun.models.tokenizer_files import read_model_text
from forerun.rpc.convert import info_to_pb
from forerun.rpc.server import Server, ServerSettings
from forerun.types import ServiceInfo, Verification
from forerun.v1 import common_pb2, draft_pb2, draft_pb2_grpc

SPIN_S = 0.001  # event loops wake in steps of a millisecond; the rest of a pause is spent awake


class Oracle:
    """The answers, and which tokens of them it gets wrong."""

    def __init__(self, answers: Sequence[dict[str, list[int]]], acceptance: float) -> None:
        self._answers = {tuple(each["prompt"]): each["answer"] for each in answers}
        self._acceptance = acceptance

    def tokens(self, prompt: tuple[int, ...], start: int, k: int) -> list[int]:
        """k tokens of the answer to `prompt` from its token `start` on, wrong ones among them; zeros after its end."""
        known = self._answers[prompt][start : start + k]
        known += [0] * (k - len(known))
        return [token ^ self._errs(prompt, start + i) for i, token in enumerate(known)]

    def _errs(self, prompt: tuple[int, ...], index: int) -> int:
        digest = blake2b(f"{prompt} {index}".encode(), digest_size=8).digest()
        return int(int.from_bytes(digest) >= self._acceptance * 2**64)


class OracleDraft(draft_pb2_grpc.DraftServiceServicer):
    """Serves it. Every stream has a device of its own."""

    def __init__(self, oracle: Oracle, vocab_size: int, step_s: float) -> None:
        self._oracle, self._step_s = oracle, step_s
        self._info = ServiceInfo(
            service="draft",
            version="1",
            model="oracle",
            vocab_size=vocab_size,
            fingerprint="",
            eos_token_ids=(),
            max_model_len=0,
            backend="sleeps",
            method="oracle",
            verifications=tuple(Verification),
        )

    async def Info(  # noqa: N802
        self, request: common_pb2.InfoRequest, context: object
    ) -> common_pb2.Info:
        return info_to_pb(self._info)

    async def Draft(  # noqa: N802
        self, requests: AsyncIterator[draft_pb2.DraftRequest], context: "grpc.aio.ServicerContext[object, object]"
    ) -> None:
        prompt: tuple[int, ...] = ()
        answering: asyncio.Task[None] | None = None
        try:
            async for request in requests:
                if request.HasField("open"):
                    prompt = tuple(request.open.prompt[: request.open.num_prompt_tokens])
                elif request.HasField("propose"):
                    if answering is not None:
                        answering.cancel()
                    answering = asyncio.create_task(self._answer(prompt, request.propose, context))
                else:
                    return
        finally:
            if answering is not None:
                answering.cancel()

    async def _answer(
        self, prompt: tuple[int, ...], asked: draft_pb2.Propose, context: "grpc.aio.ServicerContext[object, object]"
    ) -> None:
        start_s = time.monotonic()
        base_len = asked.base_len + len(asked.ids)
        tokens = self._oracle.tokens(prompt, base_len - len(prompt), asked.k)
        await _until(start_s + len(tokens) * self._step_s)
        draft_s = time.monotonic() - start_s
        proposal = common_pb2.Proposal(base_len=base_len, tokens=tokens, draft_s=draft_s)
        await context.write(draft_pb2.DraftReply(proposal=proposal))


async def _until(moment_s: float) -> None:
    await asyncio.sleep(max(0.0, moment_s - time.monotonic() - SPIN_S))
    while time.monotonic() < moment_s:  # noqa: ASYNC110
        await asyncio.sleep(0)


async def serve(port: int, draft: OracleDraft) -> None:
    """Serves until SIGTERM."""
    server = Server(ServerSettings(port=port, grace_s=0), ["forerun.v1.DraftService"])
    draft_pb2_grpc.add_DraftServiceServicer_to_server(draft, server.grpc_server)
    await server.start()
    await server.set_serving(True)
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    await ended.wait()
    await server.drain()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--answers", type=Path, required=True)
    parser.add_argument("--model", required=True, help="the target's")
    parser.add_argument("--acceptance", type=float, required=True)
    parser.add_argument("--step-s", type=float, required=True)
    arguments = parser.parse_args()
    oracle = Oracle(json.loads(arguments.answers.read_text()), arguments.acceptance)
    vocab_size = len(read_model_text(resolve(arguments.model)).tokens)
    asyncio.run(serve(arguments.port, OracleDraft(oracle, vocab_size, arguments.step_s)))


if __name__ == "__main__":
    main()
