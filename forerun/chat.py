"""`forerun chat`: a conversation in the terminal with a running gateway."""

import http.client
import json
import sys
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from forerun.config import option, parse
from forerun.errors import ConfigError, ForerunError, ServiceUnavailable

Message = dict[str, str]

_URL = "http://127.0.0.1:8000"
_NO_GATEWAY = (ValueError, LookupError, TypeError, AttributeError)
"""What reading an answer raises that is not of the API's form."""


@dataclass(frozen=True)
class ChatConfig:
    """Talk to a running gateway; an empty line or Ctrl-D ends the talk."""

    url: str = option(_URL, "address of the gateway's REST API")
    model: str = option("", "model to talk to; empty for the first that is served")
    system: str = option("", "system message; empty for the model's own")
    temperature: float = option(0.7, "0 is greedy")
    max_tokens: int = option(512, "longest answer in tokens")
    api_key: str = option("", "key, where the gateway asks for one; as a variable no list of processes shows it")

    def __post_init__(self) -> None:
        """Raises ConfigError for an address or a key that no request can have."""
        if not _is_address(self.url):
            raise ConfigError(f"--url {self.url!r} is no address such as {_URL}")
        if not (self.api_key.isascii() and self.api_key.isprintable()):
            raise ConfigError("--api-key holds characters that no key has, such as the end of a line")


def main(argv: Sequence[str]) -> int:
    """Talks until the input ends; returns the exit status."""
    config = parse(ChatConfig, argv, "forerun chat")
    try:
        model = config.model or first_model(config)
        print(f"{model} at {config.url}; an empty line ends")
        talk(config, model, prompts())
    except ForerunError as error:
        print(f"forerun chat: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print()
    return 0


def talk(config: ChatConfig, model: str, questions: Iterable[str]) -> list[Message]:
    """Asks every question with all that was said before; prints the answers as they come; returns the conversation."""
    messages = [{"role": "system", "content": config.system}] if config.system else []
    for question in questions:
        messages.append({"role": "user", "content": question})
        pieces = []
        for piece in answer(config, model, messages):
            print(piece, end="", flush=True)
            pieces.append(piece)
        print()
        messages.append({"role": "assistant", "content": "".join(pieces)})
    return messages


def prompts() -> Iterator[str]:
    """Lines from the terminal until an empty one or the end."""
    while True:
        try:
            line = input("> ").strip()
        except EOFError:
            return
        if not line:
            return
        yield line


def answer(config: ChatConfig, model: str, messages: list[Message]) -> Iterator[str]:
    """Streams the pieces of one answer.

    Raises ServiceUnavailable, where the server refuses with its words, where it breaks off and where it is no gateway.
    """
    body = {"model": model, "messages": messages, "stream": True}
    body |= {"temperature": config.temperature, "max_completion_tokens": config.max_tokens}
    with _answered(config, "/v1/chat/completions", body) as lines:
        for line in lines:
            event = line.decode().strip().removeprefix("data:").strip()
            if event and event != "[DONE]":
                yield _piece(json.loads(event))


def first_model(config: ChatConfig) -> str:
    """The first model that the gateway lists. Raises ServiceUnavailable where none answers."""
    with _answered(config, "/v1/models") as listing:
        return str(json.load(listing)["data"][0]["id"])


def _piece(event: dict[str, Any]) -> str:
    if "error" in event:
        raise ServiceUnavailable(str(event["error"].get("message", event["error"])))
    return "".join(choice["delta"].get("content") or "" for choice in event.get("choices", []))


@contextmanager
def _answered(config: ChatConfig, path: str, body: dict[str, Any] | None = None) -> Iterator[Any]:
    """The answer to read within; whatever is wrong with it becomes a sentence."""
    url = config.url.rstrip("/")
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url + path, data, {"Content-Type": "application/json"})  # noqa: S310
    if config.api_key:
        request.add_unredirected_header("Authorization", f"Bearer {config.api_key}")
    try:
        with urllib.request.urlopen(request) as answer:  # noqa: S310
            yield answer
    except urllib.error.HTTPError as error:
        raise ServiceUnavailable(_reason(error)) from error
    except (OSError, http.client.HTTPException) as error:
        why = str(error).strip() or type(error).__name__
        raise ServiceUnavailable(f"no gateway answers at {url}: {why}; start one with `forerun up`") from error
    except _NO_GATEWAY as error:
        raise ServiceUnavailable(f"what answers at {url}{path} is no gateway: {type(error).__name__}") from error


def _reason(error: urllib.error.HTTPError) -> str:
    try:
        text = error.read().decode(errors="replace")
    except (OSError, http.client.HTTPException):
        return str(error)
    try:
        return str(json.loads(text)["error"]["message"])
    except _NO_GATEWAY:
        return f"{error.code}: {text}"


def _is_address(url: str) -> bool:
    try:
        parts = urllib.parse.urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # of the port, or an address in brackets
        return False
