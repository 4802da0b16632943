"""Turns a GGUF file into a plain model folder, and mends what the GGUF loader loses of a tokenizer."""

from pathlib import Path
from typing import Any

import torch
from tokenizers import pre_tokenizers
from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

from forerun.models.bundled import Report


def convert(source: Path, folder: Path, name: str, say: Report) -> None:
    """Writes config, safetensors in bfloat16, tokenizer and chat template of `source` into `folder`."""
    say("  reading and dequantising the weights (about 15 s)")
    place = {"gguf_file": source.name, "local_files_only": True}
    model: Any = AutoModelForCausalLM.from_pretrained(
        source.parent, quantization_config=GgufConfig(dequantize=True), dtype=torch.bfloat16, **place
    )
    model.config._name_or_path = name
    vars(model.config).pop("_model_name_or_path", None)
    model.save_pretrained(folder, safe_serialization=True)
    say("  reading the tokenizer")
    tokenizer: Any = AutoTokenizer.from_pretrained(source.parent, **place)
    mend_tokenizer(tokenizer, model.config)
    tokenizer.save_pretrained(folder)


def mend_tokenizer(tokenizer: Any, config: Any) -> None:
    """Digits are split singly, as the model was trained, and the special tokens are those of its file."""
    tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
        ]
    )
    for token, token_id in (
        ("bos_token", config.bos_token_id),
        ("eos_token", config.eos_token_id),
        ("pad_token", config.eos_token_id),
        ("unk_token", 0),
    ):
        setattr(tokenizer, token, tokenizer.convert_ids_to_tokens(token_id))
    tokenizer.name_or_path = ""
    for loading_detail in ("local_files_only", "is_local"):
        tokenizer.init_kwargs.pop(loading_detail, None)
    tokenizer.model_max_length = config.max_position_embeddings
