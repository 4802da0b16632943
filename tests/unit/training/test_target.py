"""The model that is drafted for: what cannot be is refused before anything is written."""

import json
import shutil

import pytest

from forerun.errors import ConfigError
from forerun.training.target import read_target


@pytest.fixture
def folder(tiny_pair, tmp_path):
    return shutil.copytree(tiny_pair.target, tmp_path / "target")


@pytest.mark.parametrize("method", ["gptq", "awq", "bitsandbytes"])
def test_weights_that_cannot_be_widened_are_refused_with_a_way_out(folder, method):
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "quantization_config": {"quant_method": method}}))
    with pytest.raises(ConfigError, match=rf"target is quantised \({method}\).*the checkpoint that it was made from"):
        read_target(str(folder))


def test_of_several_gguf_files_none_is_chosen(folder):
    (folder / "model.safetensors").unlink()
    for name in ("a.gguf", "b.gguf"):
        (folder / name).touch()
    with pytest.raises(ConfigError, match=r"2 \.gguf files"):
        read_target(str(folder))


def test_another_gguf_file_is_another_target(folder):
    known = read_target(str(folder)).weights
    (folder / "model.safetensors").rename(folder / "model.gguf")
    changed = read_target(str(folder)).weights
    (folder / "model.gguf").write_bytes(b"else")
    assert len({known, changed, read_target(str(folder)).weights}) == 3
