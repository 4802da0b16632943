"""From a target to a model of the same kind with a few of its layers."""

import copy
from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import AutoModelForCausalLM, PretrainedConfig

from forerun.engine.model import read_config
from forerun.engine.quant import checkpoint
from forerun.errors import ConfigError

_ATTENTION = {"cpu": "eager", "cuda": "sdpa"}
"""Of what trains: on CPU the backward pass of torch's fused attention is slower than plain matrix products."""


def with_layers(target: Path, layers: tuple[int, ...], device: torch.device) -> Any:
    """transformers' module of these layers of the target, float32; all else is the target's.

    Of a quantised target, the weights that its codes mean.
    Raises ConfigError for a target that is not one list of layers between an embedding and a head.
    """
    auto: Any = AutoModelForCausalLM
    teacher = auto.from_pretrained(
        target,
        config=read_config(target, "fp32"),
        dtype=torch.float32,
        trust_remote_code=False,
        local_files_only=True,
        **checkpoint.source(target),
    )
    stack = stack_of(teacher)
    config = draft_config(teacher.config, layers)
    attention = _ATTENTION.get(device.type, "sdpa")
    module = auto.from_config(config, attn_implementation=attention, dtype=torch.float32)
    module.load_state_dict(_chosen(teacher.state_dict(), stack, layers))
    return module.eval().to(device)  # without dropout: the text is plenty for so small a model


def draft_config(config: PretrainedConfig, layers: tuple[int, ...]) -> PretrainedConfig:
    """The target's configuration with these layers; what it lists for each layer is cut to them."""
    cut: Any = copy.deepcopy(config)
    total = cut.num_hidden_layers
    cut.num_hidden_layers = len(layers)
    for name, value in config.to_dict().items():
        if isinstance(value, list) and len(value) == total:
            setattr(cut, name, [value[index] for index in layers])
    plain = {name: value for name, value in cut.to_dict().items() if name != "quantization_config"}
    return type(config).from_dict(plain)


def stack_of(module: nn.Module) -> str:
    """The name of the list that holds the layers."""
    config: Any = module.config
    for name, part in module.named_modules():
        if isinstance(part, nn.ModuleList) and len(part) == config.num_hidden_layers:
            return str(name)
    raise ConfigError(f"a {config.model_type} has no list of {config.num_hidden_layers} layers to choose from")


def _chosen(weights: dict[str, torch.Tensor], stack: str, layers: tuple[int, ...]) -> dict[str, torch.Tensor]:
    """The weights outside the stack, and those of the chosen layers under their new numbers."""
    kept = {name: weight for name, weight in weights.items() if not name.startswith(f"{stack}.")}
    for new, old in enumerate(layers):
        prefix = f"{stack}.{old}."
        own = {name: weight for name, weight in weights.items() if name.startswith(prefix)}
        kept |= {f"{stack}.{new}.{name.removeprefix(prefix)}": weight for name, weight in own.items()}
    return kept
