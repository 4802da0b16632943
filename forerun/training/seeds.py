"""Requests made up of templates and lists of our own: something to answer for a target of which no traffic is known."""

import string
import tomllib
from collections import deque
from dataclasses import dataclass
from importlib import resources
from typing import Any

import numpy as np

COMPLETIONS = ("code_completion", "text_completion")
"""Kinds that are the beginning of a text, not a request in a chat."""

_ABOUT_CODE = ("code", "edit_code")
_SAME_THROUGHOUT = ("person", "name", "n", "m", "k")
_NUMBERS = {"n": (10, 400), "m": (2, 99), "k": (2, 9)}
_FOLLOW_UP_SHARE = 0.25
_SYSTEM_SHARE = 0.25
_NUM_PASSAGES = 256
_MIN_PASSAGE, _MAX_PASSAGE = 200, 1200  # characters
_FENCE = "```"


@dataclass(frozen=True, slots=True)
class Request:
    """What a user says, turn by turn; is_completion: the text is to be continued, not answered."""

    turns: tuple[str, ...]
    system: str | None = None
    is_completion: bool = False


class Passages:
    """What the target wrote lately, as material for requests that need some."""

    def __init__(self) -> None:
        self._texts: dict[str, deque[str]] = {name: deque(maxlen=_NUM_PASSAGES) for name in ("passage", "code")}

    def offer(self, answer: str) -> None:
        """Keeps the code in it where there is some, else the text."""
        if _FENCE in answer:
            code = answer.split(_FENCE)[1]
            if len(code) >= _MIN_PASSAGE // 2:
                self._texts["code"].append(f"{_FENCE}{code[:_MAX_PASSAGE].rstrip()}\n{_FENCE}")
        elif len(answer) >= _MIN_PASSAGE:
            self._texts["passage"].append(answer[:_MAX_PASSAGE].strip())

    def pick(self, name: str, rng: np.random.Generator) -> str | None:
        """One of those kept."""
        texts = self._texts[name]
        return texts[int(rng.integers(len(texts)))] if texts else None


class Seeds:
    """Draws requests; the same state of `rng` and of the passages gives the same one."""

    def __init__(self, passages: Passages) -> None:
        content = tomllib.loads(resources.files(__package__).joinpath("seeds.toml").read_text(encoding="utf-8"))
        self._templates: dict[str, list[str]] = content["templates"]
        self._slots: dict[str, list[str]] = content["slots"]
        self._follow_ups: dict[str, list[str]] = content["follow_ups"]
        self._systems: list[str] = content["systems"]["texts"]
        self._kinds = list(content["weights"])
        weights = np.array([content["weights"][kind] for kind in self._kinds], dtype=np.float64)
        self._shares = weights / weights.sum()
        self._passages = passages

    def draw(self, rng: np.random.Generator) -> Request:
        """A request of a random kind; one that needs a passage where there is none yet is drawn again."""
        while True:
            kind = str(rng.choice(self._kinds, p=self._shares))
            text = self._fill(_pick(self._templates[kind], rng), rng)
            if text is not None:
                break
        if kind in COMPLETIONS:
            return Request((text,), is_completion=True)
        system = self._fill(_pick(self._systems, rng), rng) if rng.random() < _SYSTEM_SHARE else None
        return Request((text, *self._follow_up(kind, rng)), system)

    def _follow_up(self, kind: str, rng: np.random.Generator) -> tuple[str, ...]:
        if rng.random() >= _FOLLOW_UP_SHARE:
            return ()
        text = self._fill(_pick(self._follow_ups["code" if kind in _ABOUT_CODE else "any"], rng), rng)
        return () if text is None else (text,)

    def _fill(self, template: str, rng: np.random.Generator) -> str | None:
        """The template with something in its slots; None where the target has not written what it needs."""
        drawn: dict[str, str | None] = {}
        pieces: list[str] = []
        for literal, name, _, _ in string.Formatter().parse(template):
            pieces.append(literal)
            if name is None:
                continue
            if name not in drawn or name not in _SAME_THROUGHOUT:
                drawn[name] = self._value(name, rng)
            value = drawn[name]
            if value is None:
                return None
            pieces.append(value)
        return "".join(pieces)

    def _value(self, name: str, rng: np.random.Generator) -> str | None:
        if name in _NUMBERS:
            return str(rng.integers(*_NUMBERS[name]))
        if name in ("passage", "code"):
            return self._passages.pick(name, rng)
        if name in self._slots:
            return _pick(self._slots[name], rng)
        value = _pick(self._slots[name.lower()], rng)
        return value[0].upper() + value[1:]


def _pick(values: Any, rng: np.random.Generator) -> str:
    return str(values[int(rng.integers(len(values)))])
