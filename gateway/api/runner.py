"""Runs the choices of a request side by side and hands out what they produce, as it comes."""

import asyncio
import math
from collections.abc import AsyncIterator, Callable
from types import TracebackType

from forerun.errors import Overloaded, ServiceUnavailable
from forerun.types import TokenLogprobs
from gateway.api.choice import ChoiceSink
from gateway.api.coordinating import Coordinator
from gateway.api.job import Job, Piece
from gateway.api.totals import Totals
from gateway.generation import ChoiceRequest
from gateway.text import Text


class Run:
    """One request in the making: `async with Run(...) as run: async for piece in run.pieces()`.

    The first choice of each prompt runs ahead until its first token, so that the others find the prompt in the
    prefix cache. Leaving the block cancels whatever still runs. A choice that fails fails the request. So does a
    queue: Overloaded, where there is nothing to tell by loop time `deadline`.
    """

    def __init__(
        self,
        coordinator: Coordinator,
        text: Text,
        job: Job,
        on_tokens: Callable[[int, int], None],
        deadline: float = math.inf,
    ) -> None:
        self.totals = Totals(job)
        self.on_ended: Callable[[], None] = lambda: None  # called for each choice that comes to its end by itself
        self._coordinator = coordinator
        self._job = job
        self._on_tokens = on_tokens
        self._deadline: float | None = None if math.isinf(deadline) else deadline
        self._news = asyncio.Event()
        self._changed: dict[int, ChoiceSink] = {}
        self._flushed = [0] * job.num_choices
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._failure: BaseException | None = None
        self._ended: set[int] = set()  # choices whose last piece was handed out
        self._done: set[int] = set()  # choices whose task came to its end
        self._leaving = False
        self._sinks = [self._sink(i, text) for i in range(job.num_choices)]

    async def __aenter__(self) -> "Run":
        for first in range(0, self._job.num_choices, self._job.n):
            self._start(first)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._leaving = True
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    def prompt_logprobs(self, index: int) -> tuple[TokenLogprobs, ...]:
        """Returns the laws of the prompt of choice `index`, which only the first choice of a prompt asked for."""
        return self._sinks[index - index % self._job.n].prompt_logprobs or ()

    async def pieces(self) -> AsyncIterator[Piece]:
        """Yields what each choice produced since its last piece; ends when all have finished.

        Raises what the first failing choice raised.
        """
        while self._num_running() or self._changed:
            await self._wait()
            for sink in self._take_changed():
                piece = sink.take()
                if piece.finish_reason is not None:
                    self._ended.add(piece.index)
                yield piece

    async def whole(self) -> list[Piece]:
        """Returns one piece a choice, when all have finished."""
        while self._num_running():
            await self._wait()
        return [sink.take() for sink in self._sinks]

    def _num_running(self) -> int:
        return self._job.num_choices - len(self._done)

    def _take_changed(self) -> list[ChoiceSink]:
        """Returns the choices with news; those that must begin with the prompt's laws wait until these are there."""
        ready = [sink for sink in self._changed.values() if self._may_begin(sink.index)]
        for sink in ready:
            del self._changed[sink.index]
        return [sink for sink in ready if sink.index not in self._ended]

    def _may_begin(self, index: int) -> bool:
        first = self._sinks[index - index % self._job.n]
        waits = self._job.num_prompt_logprobs is not None and first.prompt_logprobs is None
        return not waits or first.index in self._done

    async def _wait(self) -> None:
        if self._deadline is None:
            await self._news.wait()
        else:
            await self._wait_for_the_first(self._deadline)
        self._news.clear()
        if self._failure is not None:
            raise self._failure

    async def _wait_for_the_first(self, deadline: float) -> None:
        try:
            async with asyncio.timeout_at(deadline):
                await self._news.wait()
        except TimeoutError as error:
            raise Overloaded("this server is too busy to begin with the request in time; try again later") from error
        self._deadline = None

    def _sink(self, index: int, text: Text) -> ChoiceSink:
        prompt = self._job.prompts[index // self._job.n]
        return ChoiceSink(index, text, self._job.sampling.ending, prompt.max_tokens, self._wake)

    def _wake(self, sink: ChoiceSink) -> None:
        """Called after each verdict of a choice."""
        index = sink.index
        num_new = sink.num_tokens - self._flushed[index]
        if num_new:
            self._flushed[index] = sink.num_tokens
            self.totals.num_generated_tokens += num_new
            self._on_tokens(index, num_new)
            if index % self._job.n == 0 and self._job.n > 1:
                self._start_siblings(index)
        self._changed[index] = sink
        self._news.set()

    def _start(self, index: int) -> None:
        if index not in self._tasks:
            self._tasks[index] = asyncio.create_task(self._choice(index))

    def _start_siblings(self, first: int) -> None:
        for index in range(first + 1, first + self._job.n):
            self._start(index)

    async def _choice(self, index: int) -> None:
        sink = self._sinks[index]
        try:
            await self._generate(index, sink)
        except asyncio.CancelledError:
            if self._leaving:
                raise
            self._failure = ServiceUnavailable("generation was cut off; try again")
        except Exception as error:
            self._failure = self._failure or error
        self._done.add(index)
        self.on_ended()
        if index % self._job.n == 0:
            self._start_siblings(index)
        self._wake(sink)

    async def _generate(self, index: int, sink: ChoiceSink) -> None:
        request = self._request(index)
        if request.max_tokens > 0 or request.num_prompt_logprobs is not None:
            self.totals.add(index, await self._coordinator.run(request, sink))
        if request.max_tokens == 0:
            sink.finish_reason = "length"
        if sink.finish_reason is None:
            raise ServiceUnavailable("generation ended before the text did; try again")
        self.totals.finish_reasons[index] = sink.finish_reason

    def _request(self, index: int) -> ChoiceRequest:
        """With the client's seed a prompt's choices are those of a request of its own; else no two share noise."""
        job, (prompt_index, choice) = self._job, divmod(index, self._job.n)
        prompt = job.prompts[prompt_index]
        return ChoiceRequest(
            prompt=prompt.ids,
            params=job.sampling.params,
            seed=job.sampling.seed,
            choice=index if job.sampling.user_seed is None else choice,
            max_tokens=prompt.max_tokens,
            cache_salt=job.cache_salt,
            num_logprobs=job.num_logprobs,
            num_prompt_logprobs=job.num_prompt_logprobs if choice == 0 else None,
            speculation=job.sampling.speculation,
        )
