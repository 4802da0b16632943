"""What the systems are asked: questions with a category, as token ids of a chat's first turn."""

import itertools
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transformers import AutoTokenizer

OWN = Path(__file__).parent
MAX_PROMPT_TOKENS = 2048
_CODE = ("coding", "HumanEval")


@dataclass(frozen=True)
class Prompt:
    """One question."""

    category: str
    ids: tuple[int, ...]


def read(folder: Path, count: int, model: Path) -> list[Prompt]:
    """`count` prompts from the .jsonl files of a folder, in turn from each category, in the files' order.

    Those longer than MAX_PROMPT_TOKENS are passed over. Raises ValueError where there is none.
    """
    tokenizer: Any = AutoTokenizer.from_pretrained(model)
    prompts = (Prompt(category, _chat(tokenizer, text)) for category, text in _in_turn(_entries(folder)))
    chosen = list(itertools.islice((one for one in prompts if len(one.ids) <= MAX_PROMPT_TOKENS), count))
    if not chosen:
        raise ValueError(f"no .jsonl file in {folder} has a line with `prompt` or `turns`")
    return chosen


def _entries(folder: Path) -> list[tuple[str, str]]:
    lines = [
        (path.stem, json.loads(line))
        for path in sorted(folder.glob("*.jsonl"))
        for line in path.read_text(encoding="utf-8").split("\n")  # not splitlines: U+2028 may stand in JSON
        if line.strip()
    ]
    return [
        (category(entry, stem), entry["prompt"] if "prompt" in entry else entry["turns"][0]) for stem, entry in lines
    ]


def category(entry: dict[str, Any], otherwise: str) -> str:
    """The line's own category; `code` for what Spec-Bench and HumanEval mean by it."""
    name = str(entry.get("category") or entry.get("task_id", otherwise).split("/")[0])
    return "code" if name in _CODE else name


def _in_turn(entries: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """The first of each category, then the second of each, and so on."""
    seen: dict[str, int] = {}
    ranked = []
    for name, text in entries:
        seen[name] = seen.get(name, -1) + 1
        ranked.append((seen[name], name, text))
    return [(name, text) for _, name, text in sorted(ranked, key=lambda entry: entry[0])]


def _chat(tokenizer: Any, text: str) -> tuple[int, ...]:
    messages = [{"role": "user", "content": text}]
    chat = tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
    return tuple(tokenizer(chat, add_special_tokens=False)["input_ids"])
