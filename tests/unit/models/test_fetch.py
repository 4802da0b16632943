"""A pod's init step: the folder is complete and right afterwards, or the pod does not start."""

import json

import pytest

from forerun.errors import ConfigError
from forerun.models import fetch, resolve
from forerun.models.checksums import TEXT, WEIGHTS, digests

ALL = (*TEXT, *WEIGHTS)


@pytest.fixture
def source(tmp_path):
    folder = tmp_path / "source"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"model_type": "llama"}))
    (folder / "tokenizer.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(b"weights")
    (folder / "README.md").write_text("no part of the model")
    return folder


@pytest.fixture
def into(tmp_path):
    return tmp_path / "volume" / "target"


@pytest.fixture
def listed(source, into, tmp_path, capsys):
    """The list that a first fetch printed."""
    assert fetch.main(["--model", str(source), "--into", str(into)]) == 0
    path = tmp_path / "target.sha256"
    path.write_text(capsys.readouterr().out)
    return path


def run(source, into, listed, *more):
    return fetch.main(["--model", str(source), "--into", str(into), "--checksums", str(listed), *more])


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_what_comes_is_what_the_list_says(source, into, listed):
    assert run(source, into, listed) == 0
    assert names(into) == ["config.json", "model.safetensors", "tokenizer.json"]


def test_a_folder_that_is_right_is_not_brought_again(source, into, listed):
    (source / "model.safetensors").unlink()
    assert run(source, into, listed) == 0


def test_what_a_pod_that_was_killed_left_is_cleared(source, into, listed):
    (into.parent / ".target.unfinished-abc").mkdir()
    (into.parent / ".target-2.unfinished-abc").mkdir()
    (into / "model.safetensors").unlink()
    assert run(source, into, listed) == 0
    assert names(into.parent) == [".target-2.unfinished-abc", ".target.lock", "target"]


@pytest.mark.parametrize("harm", [b"", b"weightz"])
def test_a_damaged_folder_is_brought_again(source, into, listed, harm):
    (into / "model.safetensors").write_bytes(harm)
    assert run(source, into, listed) == 0
    assert (into / "model.safetensors").read_bytes() == b"weights"


@pytest.mark.parametrize(
    ("break_it", "told"),
    [
        (lambda folder: (folder / "model.safetensors").write_bytes(b"others"), "changed: model.safetensors"),
        (lambda folder: (folder / "tokenizer.json").unlink(), "missing: tokenizer.json"),
        (lambda folder: (folder / "more.safetensors").write_bytes(b""), "not on the list: more.safetensors"),
    ],
)
def test_a_source_that_differs_is_refused_and_leaves_the_old_folder(source, into, listed, break_it, told):
    break_it(source)
    (into / "config.json").write_text("old")
    with pytest.raises(ConfigError, match=told):
        run(source, into, listed)
    assert (into / "config.json").read_text() == "old"
    assert names(into.parent) == [".target.lock", "target"]


def test_a_gateway_takes_the_text_alone_by_the_same_list(source, tmp_path, listed):
    small = tmp_path / "volume" / "text"
    assert run(source, small, listed, "--text-only") == 0
    assert names(small) == ["config.json", "tokenizer.json"]
    assert resolve.resolve_text(str(small)) == small


@pytest.mark.parametrize("text", ["", "# to be filled\n", "abc  model.safetensors\n", f"{'0' * 64}  ../escape.json\n"])
def test_a_list_that_says_nothing_is_refused(source, into, tmp_path, text):
    path = tmp_path / "list"
    path.write_text(text)
    with pytest.raises(ConfigError, match="list"):
        run(source, into, path)


def test_a_missing_list_is_refused(source, into, tmp_path):
    with pytest.raises(ConfigError, match="no list of checksums"):
        run(source, into, tmp_path / "absent")


def test_a_hub_id_is_asked_for_by_its_commit(into, monkeypatch):
    asked = []

    def download(name, revision, patterns, folder):
        asked.append((name, revision))
        (folder / "config.json").write_text("{}")

    monkeypatch.setattr(resolve, "download", download)
    assert fetch.main(["--model", "owner/name", "--revision", "c0ffee", "--into", str(into)]) == 0
    assert asked == [("owner/name", "c0ffee")]
    assert digests(into, ALL).keys() == {"config.json"}


def test_a_revision_of_a_folder_is_refused(source, into):
    with pytest.raises(ConfigError, match="--revision"):
        fetch.main(["--model", str(source), "--into", str(into), "--revision", "c0ffee"])
