"""What of a model each rank holds: transformers' own plan for it, checked against what the paged cache needs."""

import math
from typing import Any

from transformers import PretrainedConfig

from forerun.errors import ConfigError

PRECISIONS = ("bf16", "fp32")
"""Quantised layers have no plan here."""

_SPLIT_BY_HEADS = ("q_proj", "k_proj", "v_proj")


def check(config: PretrainedConfig, size: int) -> None:
    """Raises ConfigError for a model whose attention heads cannot be dealt out to `size` ranks."""
    text = config.get_text_config(decoder=True)
    plan = {name.rsplit(".", 1)[-1]: style for name, style in (text.base_model_tp_plan or {}).items()}
    if any(plan.get(name) != "colwise" for name in _SPLIT_BY_HEADS):
        raise ConfigError(f"--tensor-parallel {size}: {config.model_type} has no plan that splits attention by heads")
    heads = text.num_attention_heads
    kv_heads = getattr(text, "num_key_value_heads", None) or heads
    shared = math.gcd(heads, kv_heads)
    if shared % size:
        fits = [str(number) for number in range(2, shared + 1) if shared % number == 0]
        way_out = f"; {' or '.join(fits)} would do" if fits else ""
        told = f"the model's {heads} attention heads and {kv_heads} key-value heads"
        raise ConfigError(f"--tensor-parallel {size} does not divide {told}{way_out}")


def loading(size: int) -> dict[str, Any]:
    """What from_pretrained is told, in each rank."""
    from transformers.distributed.configuration_utils import DistributedConfig

    return {"distributed_config": DistributedConfig(tp_size=size)}
