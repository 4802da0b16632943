"""Prompts of the operator's own are read in the formats that people keep them in."""

import pytest

from forerun.errors import ConfigError
from forerun.prompt_file import read_prompts


def written(tmp_path, name, text):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


def test_lines_are_prompts_and_empty_ones_are_not(tmp_path):
    assert read_prompts(written(tmp_path, "a.txt", "What?\n\n  Why {so}?\n")) == [("What?",), ("  Why {so}?",)]


def test_json_lines_hold_a_prompt_or_turns(tmp_path):
    path = written(tmp_path, "a.jsonl", '{"prompt": "one", "id": 3}\n{"turns": ["two", "three"]}\n')
    assert read_prompts(path) == [("one",), ("two", "three")]


@pytest.mark.parametrize(
    "line", ['{"text": "x"}', '{"turns": []}', '{"turns": [1]}', '{"prompt": ""}', "[1]", "no json"]
)
def test_a_line_without_a_prompt_is_named(tmp_path, line):
    with pytest.raises(ConfigError, match=r"line 2 of .*a\.jsonl"):
        read_prompts(written(tmp_path, "a.jsonl", '{"prompt": "one"}\n' + line))


def test_a_file_that_is_missing_or_empty_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="cannot be read"):
        read_prompts(tmp_path / "none.txt")
    with pytest.raises(ConfigError, match="no prompt"):
        read_prompts(written(tmp_path, "a.txt", "\n \n"))


def test_only_line_feeds_end_a_line(tmp_path):
    odd = "a\u2028b\x85c\x0cd"
    assert read_prompts(written(tmp_path, "a.jsonl", f'{{"prompt": "{odd[:-2]}"}}\r\n{{"prompt": "e"}}\n')) == [
        (odd[:-2],),
        ("e",),
    ]
    assert read_prompts(written(tmp_path, "a.txt", f"{odd}\n")) == [(odd,)]
