"""What text needs to know of a model is read from its files alone."""

import json
import subprocess
import sys

import pytest

from forerun.errors import ConfigError
from forerun.models.tokenizer_files import first_difference, read_model_text
from tests.support import tiny


@pytest.fixture
def folder(tmp_path):
    tokens = tiny.pieces(64)
    tiny.build_tokenizer(tokens).save_pretrained(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({"eos_token_id": 2, "max_position_embeddings": 512}))
    return tmp_path


def test_tokens_specials_template_and_limits_are_read(folder):
    text = read_model_text(folder)
    assert text.vocab_size == 64
    assert text.tokens[:4] == ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "a")
    assert text.special_ids == {0, 1, 2}
    assert text.special_tokens == {
        "bos_token": "<|im_start|>", "eos_token": "<|im_end|>", "unk_token": "<|endoftext|>"
    }  # fmt: skip
    assert text.eos_token_ids == (2,)
    assert text.max_model_len == 512
    assert text.chat_template == tiny.CHAT_TEMPLATE


def test_a_list_of_eos_ids_in_the_generation_config_wins(folder):
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [2, 0]}))
    assert read_model_text(folder).eos_token_ids == (0, 2)


def test_without_any_config_the_tokenizers_eos_is_used_and_there_is_no_limit(folder):
    (folder / "config.json").unlink()
    text = read_model_text(folder)
    assert (text.eos_token_ids, text.max_model_len) == ((2,), 0)


def test_the_default_of_several_named_templates_is_taken(folder):
    (folder / "chat_template.jinja").unlink()
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    settings["chat_template"] = [{"name": "tools", "template": "T"}, {"name": "default", "template": "D"}]
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    assert read_model_text(folder).chat_template == "D"


def test_a_special_flag_changes_the_fingerprint(folder):
    before = read_model_text(folder).fingerprint
    content = json.loads((folder / "tokenizer.json").read_text())
    content["added_tokens"][0]["special"] = False
    (folder / "tokenizer.json").write_text(json.dumps(content))
    assert read_model_text(folder).fingerprint != before


def test_a_missing_or_broken_tokenizer_is_named(folder):
    (folder / "tokenizer.json").write_text("{")
    with pytest.raises(ConfigError, match=r"tokenizer\.json"):
        read_model_text(folder)
    (folder / "tokenizer.json").unlink()
    with pytest.raises(ConfigError, match=r"no tokenizer\.json"):
        read_model_text(folder)


def test_the_first_differing_token_is_named_case_2():
    assert first_difference(("a", "b", "c"), ("a", "x", "y")) == "id 1 is 'b' here and 'x' there"
    assert first_difference(("a", "b"), ("a",)) == "2 tokens here and 1 there"
    assert first_difference(("a",), ("a",)) == ""


def test_reading_loads_neither_torch_nor_transformers(folder):
    code = (
        "import sys, pathlib; from forerun.models.tokenizer_files import read_model_text;"
        "from forerun.models.resolve import resolve;"
        "read_model_text(pathlib.Path(sys.argv[1]));"
        "print([name for name in ('torch', 'transformers', 'huggingface_hub') if name in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code, str(folder)], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
