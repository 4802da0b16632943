"""A model's name becomes a folder that is safe to load, or an error that says why not."""

import json

import pytest

from forerun.errors import ConfigError
from forerun.models.resolve import public_name, resolve


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "model.safetensors").write_bytes(b"")
    return tmp_path


def test_a_local_folder_is_itself(folder):
    assert resolve(str(folder)) == folder
    assert public_name(str(folder)) == folder.name


def test_the_bundled_draft_is_found_in_the_package():
    draft = resolve("draft-smollm2-135m")
    assert (draft / "vocab.npy").is_file()
    assert json.loads((draft / "config.json").read_text())["num_hidden_layers"] == 4


def test_a_folder_without_safetensors_is_refused(folder):
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(ConfigError, match="safetensors"):
        resolve(str(folder))


def test_a_folder_that_needs_its_own_code_is_refused(folder):
    (folder / "config.json").write_text(json.dumps({"auto_map": {"AutoModel": "modeling.Model"}}))
    with pytest.raises(ConfigError, match="auto_map"):
        resolve(str(folder))


def test_a_folder_without_a_config_is_refused(folder):
    (folder / "config.json").unlink()
    with pytest.raises(ConfigError, match=r"config\.json"):
        resolve(str(folder))


def test_a_hub_id_without_a_network_is_a_clear_error(tmp_path, monkeypatch):
    import huggingface_hub.constants

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(ConfigError, match="owner/absent"):
        resolve("owner/absent")


def test_a_name_that_is_nothing_says_what_would_be_right():
    with pytest.raises(ConfigError, match="SmolLM2-135M-Instruct"):
        resolve("no-such-model")
