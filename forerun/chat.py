"""`forerun chat`: a conversation in the terminal with a running gateway."""

import json
import sys
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from forerun.config import option, parse
from forerun.errors import ForerunError, ServiceUnavailable

Message = dict[str, str]


@dataclass(frozen=True)
class ChatConfig:
    """Talk to a running gateway; an empty line or Ctrl-D ends the talk."""

    url: str = option("http://127.0.0.1:8000", "address of the gateway's REST API")
    model: str = option("", "model to talk to; empty for the first that is served")
    system: str = option("", "system message; empty for the model's own")
    temperature: float = option(0.7, "0 is greedy")
    max_tokens: int = option(512, "longest answer in tokens")


def main(argv: Sequence[str]) -> int:
    """Talks until the input ends; returns the exit status."""
    config = parse(ChatConfig, argv, "forerun chat")
    try:
        model = config.model or first_model(config.url)
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
    """Streams the pieces of one answer. Raises ServiceUnavailable with the server's words where it refuses."""
    body = {"model": model, "messages": messages, "stream": True}
    body |= {"temperature": config.temperature, "max_completion_tokens": config.max_tokens}
    with _open(config.url + "/v1/chat/completions", body) as lines:
        for line in lines:
            event = line.decode().strip().removeprefix("data:").strip()
            if event and event != "[DONE]":
                yield _piece(json.loads(event))


def first_model(url: str) -> str:
    """The first model that the gateway lists."""
    with _open(url + "/v1/models") as listing:
        return str(json.load(listing)["data"][0]["id"])


def _piece(event: dict[str, Any]) -> str:
    if "error" in event:
        raise ServiceUnavailable(str(event["error"].get("message", event["error"])))
    return "".join(choice["delta"].get("content") or "" for choice in event.get("choices", []))


def _open(url: str, body: dict[str, Any] | None = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})  # noqa: S310
    try:
        return urllib.request.urlopen(request)  # noqa: S310
    except urllib.error.HTTPError as error:
        raise ServiceUnavailable(_reason(error)) from error
    except OSError as error:
        raise ServiceUnavailable(f"no gateway answers at {url}: {error}; start one with `forerun up`") from error


def _reason(error: urllib.error.HTTPError) -> str:
    text = error.read().decode(errors="replace")
    try:
        return str(json.loads(text)["error"]["message"])
    except (ValueError, LookupError, TypeError):
        return f"{error.code}: {text}"
