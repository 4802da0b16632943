"""Checkpoints that come quantised: which of them load, how, and in which precisions."""

import json
from pathlib import Path
from typing import Any

import torch

from forerun.errors import ConfigError

INSTALL = {
    "compressed-tensors": "pip install 'forerun[quantized]'",
    "awq": "pip install gptqmodel",
    "gptq": "pip install gptqmodel",
}
"""What transformers' quantiser of a method needs."""

GGUF = "gguf"
"""What files of that name are called as a method; their weights are widened as they are read."""

_GGUF_EMBEDDING = "token_embd.weight"

WIDENED = ("fp8", "compressed-tensors")
"""Methods that transformers can widen at load."""

REQUANTISED = ("int4", "int8", "fp8")
"""Precisions in which a checkpoint's weights would be quantised here."""


def describe(folder: Path) -> dict[str, Any]:
    """The checkpoint's quantization_config; empty where its weights are plain numbers of their dtype."""
    if gguf_file(folder) is not None:
        return {"quant_method": GGUF}
    path = folder / "config.json"
    found: dict[str, Any] = json.loads(path.read_text()).get("quantization_config") or {} if path.exists() else {}
    return found


def gguf_file(folder: Path) -> Path | None:
    """The weights of a folder that has no safetensors. Raises ConfigError where there are several to choose from."""
    files = [] if any(folder.glob("*.safetensors")) else sorted(folder.glob("*.gguf"))
    if len(files) > 1:
        raise ConfigError(f"{folder} holds {len(files)} .gguf files; leave one of them there")
    return files[0] if files else None


def source(folder: Path) -> dict[str, Any]:
    """What from_pretrained is told of where the weights are; those of a GGUF file are widened as they are read."""
    file = gguf_file(folder)
    if file is None:
        return {"use_safetensors": True}
    from transformers import GgufConfig

    return {"gguf_file": file.name, "quantization_config": GgufConfig(dequantize=True)}


def gguf_embedding(file: Path) -> torch.Tensor:
    """The input embedding `[vocabulary, width] float32` of a GGUF file. Raises ConfigError where it has none."""
    import gguf

    for tensor in gguf.GGUFReader(file).tensors:
        if tensor.name == _GGUF_EMBEDDING:
            return torch.from_numpy(gguf.quants.dequantize(tensor.data, tensor.tensor_type).copy())
    raise ConfigError(f"{file} holds no {_GGUF_EMBEDDING}")


def is_fp8(description: dict[str, Any]) -> bool:
    """Whether its weights are e4m3, by block, by channel or by tensor."""
    if description.get("quant_method") == "fp8":
        return True
    groups = (description.get("config_groups") or {}).values()
    weights = [group.get("weights") or {} for group in groups if isinstance(group, dict)]
    return bool(weights) and all(w.get("type") == "float" and w.get("num_bits") == 8 for w in weights)


def own_precision(folder: Path, device: str) -> str | None:
    """What `--precision auto` means for this checkpoint where it is quantised, else None."""
    description = describe(folder)
    if not description:
        return None
    return "fp8" if is_fp8(description) and torch.device(device).type == "cuda" else "bf16"


def prepare(config: Any, folder: Path, precision: str) -> None:
    """Has transformers' quantiser widen FP8 and compressed-tensors as it reads them; others stay as they are.

    In precision fp8 the codes are made again: by channel the same, as the largest of a channel is its 448; by block
    they are new. (transformers' own FP8 kernels come from the network.)
    Raises ConfigError for a precision that would quantise weights twice.
    """
    description = describe(folder)
    if not description:
        return
    if precision in REQUANTISED and not (precision == "fp8" and is_fp8(description)):
        raise ConfigError(
            f"{folder.name} is quantised already ({description.get('quant_method')}); --precision {precision} would "
            "do it twice: choose auto or bf16"
        )
    if description.get("quant_method") in WIDENED:
        config.quantization_config = {**description, "dequantize": True}


def missing_library(folder: Path, error: ImportError) -> ConfigError:
    """Says what to install for this checkpoint."""
    method = str(describe(folder).get("quant_method"))
    way_out = INSTALL.get(method, "install what transformers asks for")
    return ConfigError(f"{folder.name} needs a library to be read ({method}): {way_out} ({error})")
