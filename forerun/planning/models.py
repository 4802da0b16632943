"""Well-known shapes by name, as the fields of their config.json; any other model is read from its folder."""

from pathlib import Path
from typing import Any

from forerun.errors import ConfigError
from forerun.planning.shape import ModelShape, from_config, from_folder


def _config(
    layers: int, hidden: int, heads: int, kv_heads: int, head_dim: int, width: int, vocabulary: int, tied: bool = False
) -> dict[str, Any]:
    return {
        "num_hidden_layers": layers,
        "hidden_size": hidden,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "head_dim": head_dim,
        "intermediate_size": width,
        "vocab_size": vocabulary,
        "tie_word_embeddings": tied,
    }


KNOWN: dict[str, dict[str, Any]] = {
    "llama-3.2-1b": _config(16, 2048, 32, 8, 64, 8192, 128256, tied=True),
    "llama-3.2-3b": _config(28, 3072, 24, 8, 128, 8192, 128256, tied=True),
    "llama-3.1-8b": _config(32, 4096, 32, 8, 128, 14336, 128256),
    "llama-3.3-70b": _config(80, 8192, 64, 8, 128, 28672, 128256),
    "llama-3.1-405b": _config(126, 16384, 128, 8, 128, 53248, 128256),
    "qwen3-0.6b": _config(28, 1024, 16, 8, 128, 3072, 151936, tied=True),
    "qwen3-1.7b": _config(28, 2048, 16, 8, 128, 6144, 151936, tied=True),
    "qwen3-8b": _config(36, 4096, 32, 8, 128, 12288, 151936),
    "qwen3-32b": _config(64, 5120, 64, 8, 128, 25600, 151936),
    "qwen3-30b-a3b": {
        **_config(48, 2048, 32, 4, 128, 6144, 151936),
        "num_experts": 128,
        "num_experts_per_tok": 8,
        "moe_intermediate_size": 768,
    },
    "mixtral-8x7b": {
        **_config(32, 4096, 32, 8, 128, 14336, 32000),
        "num_local_experts": 8,
        "num_experts_per_tok": 2,
    },
    "smollm2-135m": _config(30, 576, 9, 3, 64, 1536, 49152, tied=True),
    "draft-smollm2-135m": _config(4, 576, 9, 3, 64, 1536, 49152, tied=True),
}
_HEAD_ROWS = {"draft-smollm2-135m": 8192}


def find_model(name: str) -> ModelShape:
    """The shape of a known model, or of the one in a folder. Raises ConfigError where there is neither."""
    if name.lower() in KNOWN:
        return from_config(name.lower(), KNOWN[name.lower()], _HEAD_ROWS.get(name.lower()))
    path = Path(name).expanduser()
    if path.exists():
        return from_folder(path)
    raise ConfigError(f"no model {name!r}: expected a folder with a config.json, or one of {', '.join(KNOWN)}")
