"""A window: some requests, a number of them at any time, and what came of them."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from forerun.bench.answer import Answer, Message
from forerun.bench.prompts import Turns
from forerun.errors import ForerunError

Ask = Callable[[Sequence[Message]], Awaitable[Answer]]


@dataclass
class Window:
    """Grows while it runs, so that a window that was broken off still tells what it saw. Each failure is a sentence."""

    answers: list[Answer] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    started_s: float = 0.0
    ended_s: float = 0.0  # of the last answer so far
    is_whole: bool = False
    client_busy_share: float = 0.0  # of its time, that this client's thread computed

    async def run(self, ask: Ask, chats: Iterable[Turns], num_at_once: int) -> None:
        """Returns when every chat came to its end; whoever was answered takes the next."""
        self.started_s, left = time.perf_counter(), iter(chats)
        computed_s = time.thread_time()
        async with asyncio.TaskGroup() as group:
            for _ in range(num_at_once):
                group.create_task(self._client(ask, left))
        self.is_whole = True
        self.client_busy_share = (time.thread_time() - computed_s) / (time.perf_counter() - self.started_s)

    @property
    def num_tokens(self) -> int:
        """Of all answers."""
        return sum(answer.num_tokens or 0 for answer in self.answers)

    @property
    def tokens_per_s(self) -> float | None:
        """Of all answers together; None before the first."""
        return self.num_tokens / (self.ended_s - self.started_s) if self.answers else None

    async def _client(self, ask: Ask, left: Iterator[Turns]) -> None:
        for turns in left:
            await self._chat(ask, turns)

    async def _chat(self, ask: Ask, turns: Turns) -> None:
        """Each turn is a request that carries what was said before; without its answer the rest cannot be asked."""
        said: list[Message] = []
        for number, turn in enumerate(turns):
            said.append({"role": "user", "content": turn})
            try:
                answer = await ask(said)
            except ForerunError as error:
                self.failures += [str(error)] * (len(turns) - number)
                return
            self.answers.append(answer)
            self.ended_s = time.perf_counter()
            said.append({"role": "assistant", "content": answer.text})
