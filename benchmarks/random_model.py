"""A model of about a billion random weights, with the bundled model's tokenizer: real cost, no sense."""

import shutil
from pathlib import Path

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from forerun.models.cache_folder import cache_folder
from forerun.models.resolve import resolve

NAME = "random-llama-1b"


def random_model() -> Path:
    """The model's folder in the cache; made at the first call."""
    folder = cache_folder("benchmarks") / NAME
    if (folder / "model.safetensors").exists():
        return folder
    bundled = resolve("bundled")
    given = LlamaConfig.from_pretrained(bundled)
    config = LlamaConfig(
        vocab_size=given.vocab_size,
        hidden_size=2048,
        intermediate_size=8192,
        num_hidden_layers=16,
        num_attention_heads=32,
        num_key_value_heads=8,
        max_position_embeddings=8192,
        tie_word_embeddings=True,
        bos_token_id=given.bos_token_id,
        eos_token_id=given.eos_token_id,
    )
    torch.manual_seed(0)
    torch.set_default_dtype(torch.bfloat16)
    model = LlamaForCausalLM(config)
    torch.set_default_dtype(torch.float32)
    unfinished = folder.with_suffix(".new")
    shutil.rmtree(unfinished, ignore_errors=True)
    model.save_pretrained(unfinished)
    for path in bundled.iterdir():
        if path.name.startswith(("tokenizer", "special_tokens", "generation_config", "chat_template")):
            shutil.copy(path, unfinished)
    unfinished.rename(folder)
    return folder
