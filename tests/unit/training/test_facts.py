"""A folder goes on as it was begun, and what it was begun with is written whole or not at all."""

import json
import os

import pytest

from forerun.errors import ConfigError
from forerun.training import facts

FACTS = {"target": "tiny", "layers": [0, 1], "start": ""}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "draft" / "draft.json"


def test_what_it_was_begun_with_is_kept(path):
    facts.agree(path, FACTS)
    facts.agree(path, FACTS)
    assert json.loads(path.read_text()) == FACTS
    assert [each.name for each in path.parent.iterdir()] == [path.name]


def test_another_value_is_refused_by_name(path):
    facts.agree(path, FACTS)
    with pytest.raises(ConfigError, match="begun with start '', now it is 'earlier'; choose another folder"):
        facts.agree(path, {**FACTS, "start": "earlier"})


def test_a_folder_that_was_begun_before_a_fact_was_kept_goes_on(path):
    facts.agree(path, {"target": "tiny", "layers": [0, 1]})
    facts.agree(path, {**FACTS, "start": "earlier"})
    with pytest.raises(ConfigError, match="target"):
        facts.agree(path, {**FACTS, "target": "other"})


def test_a_disk_that_fails_leaves_no_half_of_it(path, monkeypatch):
    with monkeypatch.context() as failing:
        failing.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError("disk full")))
        with pytest.raises(OSError, match="disk full"):
            facts.agree(path, FACTS)
    assert not path.exists()
    facts.agree(path, FACTS)
    assert json.loads(path.read_text()) == FACTS


@pytest.mark.parametrize("content", ["", '{"target": ', "[]"])
def test_a_file_that_cannot_be_read_is_named(path, content):
    path.parent.mkdir()
    path.write_text(content)
    with pytest.raises(ConfigError, match=r"draft\.json cannot be read"):
        facts.agree(path, FACTS)
