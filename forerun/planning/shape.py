"""The shape of a model as far as it costs anything: weights, keys and values; read from a config.json."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from forerun.errors import ConfigError

PRECISION_BYTES = {"fp32": 4, "bf16": 2, "fp8": 1, "int8": 1}
_NEEDED = ("num_hidden_layers", "hidden_size", "num_attention_heads", "vocab_size")
_UNKNOWN = {
    "kv_lora_rank": "latent attention",
    "n_routed_experts": "shared experts",
    "layer_types_block": "blocks of its own",
    "ssm_cfg": "recurrent layers",
}


@dataclass(frozen=True)
class ModelShape:
    """Numbers of weights. layer_params: what every row meets in all layers together, experts left out.

    expert_params: one expert of each layer. input_params: an embedding that is looked up and not multiplied.
    """

    name: str
    num_layers: int
    hidden_size: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    layer_params: int
    head_params: int
    input_params: int = 0
    num_experts: int = 0
    experts_per_token: int = 0
    expert_params: int = 0

    @property
    def num_params(self) -> int:
        """All weights."""
        return self.layer_params + self.num_experts * self.expert_params + self.head_params + self.input_params

    @property
    def row_params(self) -> int:
        """Weights that a row is multiplied with, the head left out."""
        return self.layer_params + self.experts_per_token * self.expert_params

    def weights_read(self, num_rows: float) -> float:
        """Weights that a step over so many rows reads: of experts, those that some row chose, drawn evenly."""
        if not self.num_experts:
            return self.layer_params + self.head_params
        missed: float = (1 - self.experts_per_token / self.num_experts) ** num_rows
        return self.layer_params + self.head_params + self.num_experts * self.expert_params * (1 - missed)

    def kv_bytes(self, precision: str) -> int:
        """Bytes of a token's keys and values in all layers."""
        return 2 * self.num_layers * self.num_kv_heads * self.head_dim * PRECISION_BYTES[precision]


def from_config(name: str, config: Mapping[str, Any], head_rows: int | None = None) -> ModelShape:
    """The shape that a Hugging Face config describes: gated MLPs or experts, any grouping of heads.

    head_rows: of a head over part of the vocabulary. Raises ConfigError, naming the field, for a config that lacks one
    or whose layers are of another kind.
    """
    config = config.get("text_config", config)
    for field, kind in _UNKNOWN.items():
        if config.get(field):
            raise ConfigError(f"model {name!r} has {kind} ({field}), which the cost model does not know")
    missing = [field for field in _NEEDED if not config.get(field)]
    if missing:
        raise ConfigError(f"the config of model {name!r} lacks {', '.join(missing)}")
    hidden, layers, heads = config["hidden_size"], config["num_hidden_layers"], config["num_attention_heads"]
    kv_heads = config.get("num_key_value_heads") or heads
    head_dim = config.get("head_dim") or hidden // heads
    num_experts = config.get("num_local_experts") or config.get("num_experts") or 0
    width = (config.get("moe_intermediate_size") if num_experts else None) or config.get("intermediate_size")
    if not width:
        raise ConfigError(f"the config of model {name!r} lacks intermediate_size")
    mlp = 3 * hidden * width * layers
    attention = hidden * head_dim * (2 * heads + 2 * kv_heads) * layers
    vocabulary = config["vocab_size"] * hidden
    is_tied = config.get("tie_word_embeddings", False)
    head = vocabulary if head_rows is None else head_rows * hidden
    return ModelShape(
        name=name,
        num_layers=layers,
        hidden_size=hidden,
        num_heads=heads,
        num_kv_heads=kv_heads,
        head_dim=head_dim,
        layer_params=attention + (num_experts * hidden * layers if num_experts else mlp),
        head_params=head,
        input_params=0 if is_tied and head_rows is None else vocabulary,
        num_experts=num_experts,
        experts_per_token=config.get("num_experts_per_tok", 0) if num_experts else 0,
        expert_params=mlp if num_experts else 0,
    )


def from_folder(folder: Path) -> ModelShape:
    """The shape of the model in a folder, of which only config.json, and vocab.npy where there is one, are read.

    Raises ConfigError where there is no config.json to be understood.
    """
    path = folder / "config.json" if folder.is_dir() else folder
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"no config.json could be read at {path}: {error}") from error
    except ValueError as error:
        raise ConfigError(f"{path} is not valid JSON: {error}") from error
    if not isinstance(config, dict):
        raise ConfigError(f"{path} holds no object")
    vocabulary = path.parent / "vocab.npy"
    head_rows = int(np.load(vocabulary, mmap_mode="r").shape[0]) if vocabulary.is_file() else None
    return from_config(path.resolve().parent.name, config, head_rows)
