"""Whether this gateway really answers: when the last token came, and a probe when that is long ago."""

import asyncio
from collections.abc import Callable

from forerun.errors import ForerunError
from forerun.types import SamplingParams, TokenLogprobs, Verification
from gateway.api.coordinating import Coordinator
from gateway.generation import ChoiceRequest, FinishReason, SpeculationSettings


class Freshness:
    """Remembers when anyone's last token was produced; probes share one attempt."""

    def __init__(
        self, coordinator: Coordinator, clock: Callable[[], float], fresh_s: float = 10.0, probe_timeout_s: float = 5.0
    ) -> None:
        self._coordinator = coordinator
        self._clock = clock
        self._fresh_s = fresh_s
        self._probe_timeout_s = probe_timeout_s
        self._last: float | None = None
        self._probing: asyncio.Task[str] | None = None

    def token(self) -> None:
        """Called whenever tokens were produced."""
        self._last = self._clock()

    async def check(self) -> str:
        """Returns "" where a token is fresh or the probe brought one, else why not."""
        if self._last is not None and self._clock() - self._last < self._fresh_s:
            return ""
        if self._probing is None or self._probing.done():
            self._probing = asyncio.create_task(self._probe())
        return await asyncio.shield(self._probing)

    async def _probe(self) -> str:
        params = SamplingParams(temperature=0.0, verification=Verification.MATCH)
        request = ChoiceRequest((0,), params, seed=0, max_tokens=1, speculation=SpeculationSettings(enabled=False))
        try:
            async with asyncio.timeout(self._probe_timeout_s):
                await self._coordinator.run(request, _OneToken())
        except TimeoutError:
            return f"no token within {self._probe_timeout_s:g} s"
        except ForerunError as error:
            return str(error)
        self.token()
        return ""


class _OneToken:
    def push(self, token: int, logprobs: TokenLogprobs | None) -> FinishReason | None:
        return "length"

    def push_prompt_logprobs(self, logprobs: tuple[TokenLogprobs, ...]) -> None:
        pass

    def flush(self) -> None:
        pass
