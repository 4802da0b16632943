"""A draft that begins as an earlier one with layers put between its own: at first they change nothing."""

import json
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

from forerun.errors import ConfigError
from forerun.training.surgery import stack_of

_WEIGHTS, _CONFIG = "model.safetensors", "config.json"
_OUTPUTS = ("o_proj.weight", "down_proj.weight")
"""What a layer adds to the stream goes through these; where they are zero it adds nothing, and learns to (Net2Net)."""


def num_layers(earlier: Path) -> int:
    """Of the draft in a folder. Raises ConfigError where there is none."""
    try:
        config = json.loads((earlier / _CONFIG).read_text(encoding="utf-8"))
        return int(config["num_hidden_layers"])
    except (OSError, ValueError, KeyError) as error:
        raise ConfigError(f"--start {earlier} is no folder of a draft: {error}") from error


def grow(module: Any, earlier: Path) -> None:
    """Writes the draft in the folder `earlier` into `module`, half its layers first and half last.

    Raises ConfigError for a folder that holds none, or one that does not fit.
    """
    count = num_layers(earlier)
    try:
        weights = load_file(earlier / _WEIGHTS)
    except (OSError, SafetensorError) as error:
        raise ConfigError(f"--start {earlier} holds no weights that can be read: {error}") from error
    stack, total = stack_of(module), module.config.num_hidden_layers
    if count > total:
        raise ConfigError(f"--start {earlier} has {count} layers, more than the {total} of --layers")
    places = [index if index < (count + 1) // 2 else total - count + index for index in range(count)]
    state = module.state_dict()
    for name, weight in weights.items():
        renamed = _renamed(name, stack, places)
        if renamed not in state or state[renamed].shape != weight.shape:
            raise ConfigError(f"--start {earlier} does not fit this target: {name} {list(weight.shape)}")
        state[renamed] = weight.float()
    for index in set(range(total)) - set(places):
        for name in _outputs(state, f"{stack}.{index}."):
            state[name] = torch.zeros_like(state[name])
    module.load_state_dict(state)


def _renamed(name: str, stack: str, places: list[int]) -> str:
    if not name.startswith(f"{stack}."):
        return name
    index, _, rest = name.removeprefix(f"{stack}.").partition(".")
    return f"{stack}.{places[int(index)]}.{rest}"


def _outputs(state: dict[str, torch.Tensor], prefix: str) -> list[str]:
    names = [name for name in state if name.startswith(prefix) and name.endswith(_OUTPUTS)]
    if not names:
        raise ConfigError(f"--start cannot add layers to this kind of model: none of {_OUTPUTS} in {prefix}*")
    return names
