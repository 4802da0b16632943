"""Prompts from a file of the operator's; they are read, never copied."""

import json
from pathlib import Path
from typing import Any

from forerun.errors import ConfigError


def read_prompts(path: Path) -> list[tuple[str, ...]]:
    """Each prompt as its user turns: `turns` or `prompt` of a .jsonl line, else the line; empty lines do not count.

    Raises ConfigError, naming the line, for what is neither.
    """
    try:
        lines = path.read_text(encoding="utf-8").split("\n")  # not splitlines: U+2028 may stand in JSON
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"--prompts {path} cannot be read: {error}") from error
    of_json = path.suffix == ".jsonl"
    prompts = [
        _prompt(line, f"line {number} of {path}", of_json) for number, line in enumerate(lines, 1) if line.strip()
    ]
    if not prompts:
        raise ConfigError(f"--prompts {path} has no prompt in it")
    return prompts


def _prompt(line: str, where: str, of_json: bool) -> tuple[str, ...]:
    if not of_json:
        return (line,)
    try:
        entry: Any = json.loads(line)
    except ValueError as error:
        raise ConfigError(f"{where} is not valid JSON: {error}") from error
    turns = (entry.get("turns") or [entry.get("prompt")]) if isinstance(entry, dict) else [None]
    if not isinstance(turns, list) or not all(isinstance(turn, str) and turn for turn in turns):
        raise ConfigError(f"{where} has neither `prompt`, a text, nor `turns`, a list of texts")
    return tuple(turns)
