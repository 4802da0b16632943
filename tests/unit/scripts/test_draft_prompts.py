"""The prompts that the bundled draft learned from: every template finds what it needs."""

import json
import tomllib
from pathlib import Path

import numpy as np
import pytest

from scripts.draft_prompts import __main__ as program
from scripts.draft_prompts import sources

ARTICLE = "The sea is wide. Ships cross it by night and by day. " * 100
TEMPLATES = tomllib.loads(Path(program.__file__).with_name("templates.toml").read_text(encoding="utf-8"))


@pytest.fixture
def material(monkeypatch):
    monkeypatch.setattr(sources, "articles", lambda folder: [(ARTICLE, ["ship", "the North Sea"])])
    monkeypatch.setattr(sources, "news", lambda folder: ["A harbour was opened today. " * 40] * 3)
    monkeypatch.setattr(sources, "speeches", lambda folder: ["We shall build more harbours. " * 200])
    monkeypatch.setattr(sources, "handbook", lambda folder: ["To install a harbour, see chapter two. " * 10] * 30)
    monkeypatch.setattr(
        sources, "foreign", lambda folder: [("German", "Das Meer ist weit, und Schiffe fahren darauf.")]
    )
    return program.Material(Path(), np.random.default_rng(0))


def test_every_kind_is_drawn_and_nothing_is_left_open(material):
    rng = np.random.default_rng(1)
    drawn = [program.draw(TEMPLATES, material, rng) for _ in range(500)]
    assert {prompt["category"] for prompt in drawn} == set(TEMPLATES["weights"])
    assert not any("{" in prompt["prompt"] or not prompt["prompt"].strip() for prompt in drawn)


def test_passages_are_as_long_as_the_templates_say(material):
    _, most = TEMPLATES["passage_characters"]["summary"]
    texts = [material.any_text(1200, most) for _ in range(100)]
    assert all(0 < len(text) <= most for text in texts)
    assert len(set(texts)) > 10


def test_a_prompt_is_a_line_of_the_file_that_distill_reads(material, monkeypatch, tmp_path):
    monkeypatch.setattr(program, "Material", lambda folder, rng: material)
    monkeypatch.setattr(
        "sys.argv", ["draft_prompts", str(tmp_path / "p.jsonl"), "--sources", str(tmp_path), "--count", "7"]
    )
    program.main()
    lines = (tmp_path / "p.jsonl").read_text(encoding="utf-8").split("\n")
    assert len([json.loads(line)["prompt"] for line in lines if line]) == 7
