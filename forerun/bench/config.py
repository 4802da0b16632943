"""Settings of `forerun bench`."""

from dataclasses import dataclass

import httpx2

from forerun.config import option
from forerun.errors import ConfigError

ANY_MODEL = "auto"


@dataclass(frozen=True)
class BenchConfig:
    """Measures a running gateway: speed, latencies and what speculation brings, load by load."""

    url: str = option("http://127.0.0.1:8000", "address of the gateway's REST API")
    api_key: str = option("", "key to show, where the gateway asks for one")
    model: str = option(ANY_MODEL, "model to ask; auto for the first that is served")
    concurrency: tuple[str, ...] = option(("1", "4", "16"), "loads to measure: so many requests at once")
    num_requests: int = option(32, "requests of a window")
    rounds: int = option(3, "windows of each kind at each load; their median counts")
    warmups: int = option(1, "requests for each of those at once that come before a load and are not counted")
    max_tokens: int = option(128, "longest answer in tokens")
    temperature: float = option(0.0, "0 is greedy")
    ignore_eos: bool = option(False, "every answer has max-tokens tokens")
    prompts: str = option("", "file of lines, or .jsonl with `prompt` or `turns`; empty for a few built-in prompts")
    compare: bool = option(True, "windows with and without speculation in turn, where the server tells of it")
    timeout_s: float = option(120.0, "longest silence before a request counts as failed")
    json: str = option("", "file to write the figures to")

    def __post_init__(self) -> None:
        """Raises ConfigError for what could only fail later."""
        _check_url(self.url)
        for name, least in (("num_requests", 1), ("rounds", 1), ("warmups", 0), ("max_tokens", 1)):
            if (value := getattr(self, name)) < least:
                raise ConfigError(f"--{name.replace('_', '-')} is {value}, less than {least}")
        if self.timeout_s <= 0:
            raise ConfigError(f"--timeout-s is {self.timeout_s:g}; a request needs some time")
        if not (self.api_key.isascii() and (self.api_key.isprintable())):
            raise ConfigError("--api-key has characters that no HTTP header can carry")
        if (most := max(self.loads)) > self.num_requests:
            raise ConfigError(f"--num-requests {self.num_requests} cannot keep {most} running; ask for {most} or more")

    @property
    def base_url(self) -> str:
        """The address without what the API's own paths begin with."""
        return self.url.rstrip("/").removesuffix("/v1")

    @property
    def loads(self) -> tuple[int, ...]:
        """The numbers of requests at once, in the order given. Raises ConfigError for what is none."""
        numbers = tuple(int(text) if text.isdecimal() else 0 for text in self.concurrency)
        if not numbers or min(numbers) < 1:
            raise ConfigError(
                f"--concurrency {','.join(self.concurrency)} is no list of positive numbers, as in 1,4,16"
            )
        return numbers


def _check_url(url: str) -> None:
    try:
        known = httpx2.URL(url)
    except httpx2.InvalidURL as error:
        raise ConfigError(f"--url {url} is no address: {error}") from error
    if known.scheme not in ("http", "https") or not known.host:
        raise ConfigError(f"--url {url} is no address of a REST API, as in http://127.0.0.1:8000")
