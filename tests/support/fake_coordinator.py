"""A coordinator without services: it commits scripted tokens in runs, or tokens that a hash determines."""

import asyncio
import hashlib
from collections.abc import Callable, Sequence

from forerun.types import TokenLogprobs
from gateway.generation import ChoiceRequest, ChoiceStats, Sink

Script = Callable[[ChoiceRequest], Sequence[int]]


def hashed(vocab_size: int) -> Script:
    """Tokens that depend on prompt, seed, choice and position, as a keyed draw's would."""

    def script(request: ChoiceRequest) -> list[int]:
        key = repr((request.prompt, request.seed, request.choice)).encode()
        digests = (hashlib.sha256(key + bytes([i % 256, i // 256])).digest() for i in range(request.max_tokens))
        return [int.from_bytes(digest[:4], "little") % vocab_size for digest in digests]

    return script


class FakeCoordinator:
    """Commits `run_len` tokens a verdict and yields to the loop between verdicts.

    `gate`, where given, is awaited before every verdict. `failure` is raised before token `fail_at`.
    Remembers requests, how many runs are alive, and which were aborted.
    """

    def __init__(
        self,
        script: Script,
        run_len: int = 1,
        gate: asyncio.Event | None = None,
        failure: Exception | None = None,
        fail_at: int = 0,
    ) -> None:
        self.script = script
        self.run_len = run_len
        self.gate = gate
        self.failure = failure
        self.fail_at = fail_at
        self.late_prompt_logprobs = False  # where True, they come after the last token
        self.requests: list[ChoiceRequest] = []
        self.num_running = 0
        self.num_aborted = 0
        self.first_tokens: list[int] = []  # choices, in the order in which their first token came
        self.starts: list[tuple[int, int]] = []  # (choice, first tokens there were when it started)
        self.started = asyncio.Event()
        self.aborted = asyncio.Event()
        self._waiting_for: dict[int, asyncio.Event] = {}

    async def has_started(self, num_runs: int) -> None:
        """Returns when `num_runs` choices have started."""
        await self._waiting_for.setdefault(num_runs, asyncio.Event()).wait()

    async def run(self, request: ChoiceRequest, sink: Sink) -> ChoiceStats:
        self.requests.append(request)
        self.starts.append((request.choice, len(self.first_tokens)))
        self.num_running += 1
        self.started.set()
        self._waiting_for.setdefault(len(self.requests), asyncio.Event()).set()
        try:
            return await self._run(request, sink)
        except asyncio.CancelledError:
            self.num_aborted += 1
            self.aborted.set()
            raise
        finally:
            self.num_running -= 1

    async def _run(self, request: ChoiceRequest, sink: Sink) -> ChoiceStats:
        stats = ChoiceStats(num_cached_tokens=len(request.prompt) // 2)
        if not self.late_prompt_logprobs or request.max_tokens == 0:
            _score_prompt(request, sink)
        if request.max_tokens == 0:
            return stats
        tokens = list(self.script(request))
        for base in range(0, len(tokens), self.run_len):
            await (self.gate.wait() if self.gate else asyncio.sleep(0))
            stats.num_drafts += 1
            stats.num_draft_tokens += self.run_len
            stats.num_accepted_tokens += self.run_len - 1
            if self._commit(request, sink, tokens[base : base + self.run_len], base):
                await asyncio.sleep(0)
                if self.late_prompt_logprobs:
                    _score_prompt(request, sink)
                return stats
        await asyncio.Event().wait()
        raise AssertionError

    def _commit(self, request: ChoiceRequest, sink: Sink, tokens: list[int], base: int) -> bool:
        for i, token in enumerate(tokens, base):
            if self.failure is not None and i >= self.fail_at:
                raise self.failure
            if i == 0:
                self.first_tokens.append(request.choice)
            num = request.num_logprobs
            if sink.push(token, None if num is None else laws(token, num)):
                sink.flush()
                return True
        sink.flush()
        return False


def _score_prompt(request: ChoiceRequest, sink: Sink) -> None:
    if request.num_prompt_logprobs is not None:
        sink.push_prompt_logprobs(tuple(laws(token, request.num_prompt_logprobs) for token in request.prompt[1:]))


def laws(token: int, num_top: int) -> TokenLogprobs:
    """Made-up logprobs: the token's own is -token/1000, the most likely are the ids from 0."""
    top = tuple(range(num_top))
    return TokenLogprobs(-token / 1000, top, tuple(-0.5 - i for i in top))
