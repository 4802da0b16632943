"""The course of a measurement: load by load, windows with and without speculation in turn."""

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from forerun.bench.answer import Answer, Message
from forerun.bench.client import Client
from forerun.bench.config import ANY_MODEL, BenchConfig
from forerun.bench.prompts import Turns, chats
from forerun.bench.window import Window
from forerun.errors import ServiceUnavailable, UnknownModel

ON, OFF, AUTO = "on", "off", "auto"
_EXTENSIONS: dict[str, dict[str, Any]] = {
    ON: {"speculative": {"enabled": True}},
    OFF: {"speculative": {"enabled": False}},
    AUTO: {},
}


@dataclass
class Load:
    """So many requests at once: the windows of each mode, in the order in which they ran."""

    num_at_once: int
    windows: dict[str, list[Window]]


class Course:
    """`loads` grows while it runs, and holds what was measured however that ends."""

    def __init__(
        self, config: BenchConfig, prompts: Sequence[Turns], client: Client, tell: Callable[[str], None]
    ) -> None:
        self.model = config.model
        self.loads: list[Load] = []
        self._config, self._prompts, self._client, self._tell = config, prompts, client, tell
        self._tells_of_speculation = False

    async def run(self) -> None:
        """Measures every load. Raises a ForerunError where the server, or all of a window's requests, fail."""
        self._tell("the first answer")
        self.model = await self._served_model()
        first = await self._ask({}, [{"role": "user", "content": self._prompts[0][0]}])
        self._tells_of_speculation = first.speculative is not None
        modes = (ON, OFF) if self._config.compare and self._tells_of_speculation else (AUTO,)
        for num_at_once in self._config.loads:
            load = Load(num_at_once, {mode: [] for mode in modes})
            self.loads.append(load)
            await self._measure(load)

    async def _measure(self, load: Load) -> None:
        if self._config.warmups:
            self._tell(f"{load.num_at_once} at once: warm-up")
            await self._run(Window(), AUTO, load.num_at_once, self._config.warmups * load.num_at_once)
        for turn in range(self._config.rounds):
            # The order changes, so that what drifts meets both alike.
            for mode in reversed(load.windows) if turn % 2 else load.windows:
                self._tell(f"{load.num_at_once} at once: speculation {mode}, window {turn + 1}")
                window = Window()
                load.windows[mode].append(window)
                await self._run(window, mode, load.num_at_once, self._config.num_requests)

    async def _run(self, window: Window, mode: str, num_at_once: int, num_requests: int) -> None:
        fields = dict(_EXTENSIONS[mode])
        if self._tells_of_speculation:
            fields["cache_salt"] = secrets.token_hex(8)  # no window finds its prompts cached by an earlier one
        await window.run(partial(self._ask, fields), chats(self._prompts, num_requests), num_at_once)
        if not window.answers:
            raise ServiceUnavailable(f"all {num_requests} requests failed: {window.failures[0]}")

    async def _ask(self, fields: dict[str, Any], messages: Sequence[Message]) -> Answer:
        config = self._config
        body = {"model": self.model, "messages": messages, "max_tokens": config.max_tokens}
        body |= {"temperature": config.temperature} | ({"ignore_eos": True} if config.ignore_eos else {})
        return await self._client.chat(body | fields)

    async def _served_model(self) -> str:
        served = await self._client.models()
        if self.model == ANY_MODEL and served:
            return served[0]
        if self.model not in served:
            raise UnknownModel(f"model {self.model!r} is not served here; served: {', '.join(served) or 'none'}")
        return self.model
