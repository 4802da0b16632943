"""From a Hugging Face folder to a module that attends through the paged cache."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import safe_open
from transformers import AutoConfig, AutoModelForCausalLM, PretrainedConfig

from forerun import registry
from forerun.engine.forward import EagerForward, Forward
from forerun.engine.paged_attention import NAME
from forerun.engine.quant import QUANTIZERS, checkpoint
from forerun.engine.ranks import split as ranks
from forerun.errors import ConfigError

_BF16 = torch.bfloat16
DTYPES = {"bf16": _BF16, "fp32": torch.float32, "int8": _BF16, "int4": _BF16, "fp8": _BF16}
"""Of activations and cache; int8 and int4 have their weights quantised, fp8 weights and activations that meet them."""
_UNSUPPORTED_ROPE = ("dynamic", "longrope")


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A causal language model. head_ids: the token id of each logit, None where they are the same.

    head_size: logits a row, padding of the vocabulary included.
    """

    forward: Forward
    config: PretrainedConfig
    dtype: torch.dtype
    head_ids: np.ndarray | None
    head_size: int


def load(
    folder: Path, precision: str, device: torch.device, embedding_from: Path | None = None, num_ranks: int = 1
) -> LoadedModel:
    """Loads safetensors, or a GGUF file where there are none, and never runs code from the folder.

    Of several ranks, each calls it and gets its part.
    A folder without an embedding takes it from `embedding_from`; a vocab.npy in it trims the head to those ids.
    Raises ConfigError for an architecture or a checkpoint that cannot be served, saying what is wrong with it.
    """
    config = read_config(folder, precision)
    split = _splitting(config, folder, precision, num_ranks) if num_ranks > 1 else {}
    module, missing = _from_folder(folder, config, DTYPES[precision], split)
    _check_stateless(module, config)
    _fill_embedding(module, missing, folder, embedding_from)
    _trim_head(module, folder)
    head_size = module.get_output_embeddings().weight.shape[0]
    module.eval().requires_grad_(False).to(device)
    if precision in QUANTIZERS:
        registry.load(QUANTIZERS, precision, "precision")(module)
    return LoadedModel(EagerForward(module), config, DTYPES[precision], read_head_ids(folder), head_size)


def read_config(folder: Path, precision: str) -> PretrainedConfig:
    """The folder's configuration. Raises ConfigError for what can be seen from it alone not to be served."""
    if precision not in DTYPES:
        raise ConfigError(f"unknown precision {precision!r}; known: {', '.join(DTYPES)}")
    config: PretrainedConfig = AutoConfig.from_pretrained(folder, trust_remote_code=False, local_files_only=True)
    check_supported(config)
    checkpoint.prepare(config, folder, precision)
    return config


def read_head_ids(folder: Path) -> np.ndarray | None:
    """vocab.npy, `[logits] int64`: the ids that a trimmed head knows; None where the folder has a whole head."""
    path = folder / "vocab.npy"
    if not path.exists():
        return None
    ids: np.ndarray = np.load(path, allow_pickle=False).astype(np.int64)
    return ids


def check_supported(config: PretrainedConfig) -> None:
    """Raises ConfigError, naming the layer or setting, for models whose cache cannot be truncated or shared."""
    kind = config.model_type
    if getattr(config, "is_encoder_decoder", False):
        raise ConfigError(f"{kind} is an encoder-decoder; only decoder-only models are served")
    text = config.get_text_config(decoder=True)
    layers = getattr(text, "layer_types", None) or getattr(text, "layers_block_type", None) or []
    for index, layer in enumerate(layers):
        if layer not in ("full_attention", "sliding_attention", "attention"):
            raise ConfigError(f"layer {index} of {kind} is {layer!r}; only attention layers can be served")
    if not hasattr(text, "num_attention_heads"):
        raise ConfigError(f"layer 0 of {kind} has no attention heads; only attention layers can be served")
    if getattr(text, "use_bidirectional_attention", False):
        raise ConfigError(f"the layers of {kind} look at later tokens; only causal attention can be served")
    for rope in _rope_types(text):
        if rope in _UNSUPPORTED_ROPE:
            raise ConfigError(f"rope type {rope!r} depends on the batch's longest sequence and is not served")


def _splitting(config: PretrainedConfig, folder: Path, precision: str, num_ranks: int) -> dict[str, Any]:
    if precision not in ranks.PRECISIONS or checkpoint.own_precision(folder, "cpu"):
        raise ConfigError(f"--tensor-parallel {num_ranks} serves the precisions {', '.join(ranks.PRECISIONS)} alone")
    if read_head_ids(folder) is not None:
        raise ConfigError(f"--tensor-parallel {num_ranks}: the trimmed head of {folder.name} cannot be split")
    ranks.check(config, num_ranks)
    return ranks.loading(num_ranks)


def _from_folder(
    folder: Path, config: PretrainedConfig, dtype: torch.dtype, split: dict[str, Any]
) -> tuple[Any, set[str]]:
    """The module, and the names of the weights that the folder lacks."""
    auto: Any = AutoModelForCausalLM
    try:
        module, report = auto.from_pretrained(
            folder,
            config=config,
            dtype=dtype,
            attn_implementation=NAME,
            trust_remote_code=False,
            local_files_only=True,
            output_loading_info=True,
            **checkpoint.source(folder),
            **split,
        )
    except ImportError as error:
        raise checkpoint.missing_library(folder, error) from error
    except ValueError as error:
        raise ConfigError(f"{folder} cannot be served with paged attention: {error}") from error
    return module, set(report["missing_keys"])


def _check_stateless(module: Any, config: PretrainedConfig) -> None:
    """Layers may attend and have a recurrent state beside it, of which the attention function sees nothing."""
    if getattr(module, "_is_stateful", False):
        names = (name for name, part in module.named_modules() if hasattr(part, "conv1d") or hasattr(part, "A_log"))
        layer = next(names, "layer 0")
        raise ConfigError(f"{config.model_type} keeps a recurrent state in {layer}; it cannot be truncated")


def _rope_types(config: PretrainedConfig) -> list[str]:
    parameters: dict[str, Any] = getattr(config, "rope_parameters", None) or getattr(config, "rope_scaling", None) or {}
    layered = [value for value in parameters.values() if isinstance(value, dict)]
    return [str(entry.get("rope_type", entry.get("type", "default"))) for entry in layered or [parameters]]


def _fill_embedding(module: Any, missing: set[str], folder: Path, source: Path | None) -> None:
    """Takes a missing input embedding from another model's folder; anything else missing is refused."""
    embedding = module.get_input_embeddings()
    name = next(key for key, value in module.named_parameters() if value is embedding.weight)
    tied = {"lm_head.weight"} if module.config.tie_word_embeddings else set()
    if others := missing - {name} - tied:
        raise ConfigError(f"{folder} lacks the weights {', '.join(sorted(others)[:3])}")
    if name not in missing:
        return
    if source is None:
        raise ConfigError(f"{folder} has no {name}; name the model that it shares it with (--target-model)")
    weight = _read_embedding(source, name)
    if weight.shape[1] != embedding.weight.shape[1]:
        raise ConfigError(f"{name} of {source} is {weight.shape[1]} wide, {folder} needs {embedding.weight.shape[1]}")
    embedding.weight = torch.nn.Parameter(weight.to(embedding.weight.dtype), requires_grad=False)
    if module.config.tie_word_embeddings:
        module.get_output_embeddings().weight = embedding.weight


def _read_embedding(folder: Path, name: str) -> torch.Tensor:
    file = checkpoint.gguf_file(folder)
    if file is not None:
        return checkpoint.gguf_embedding(file)
    for path in sorted(folder.glob("*.safetensors")):
        with safe_open(path, framework="pt") as file:
            if name in file.keys():  # noqa: SIM118
                tensor: torch.Tensor = file.get_tensor(name)
                return tensor
    raise ConfigError(f"no safetensors file in {folder} holds {name}")


def _trim_head(module: Any, folder: Path) -> None:
    """Keeps only the head's rows that vocab.npy names (FR-Spec, arXiv 2502.14856)."""
    ids = read_head_ids(folder)
    if ids is None:
        return
    full = module.get_output_embeddings()
    if len(ids) == 0 or ids.min() < 0 or ids.max() >= full.weight.shape[0] or len(set(ids.tolist())) < len(ids):
        rows = full.weight.shape[0]
        raise ConfigError(f"{folder / 'vocab.npy'} names ids outside the head's {rows} rows, or one of them twice")
    head = torch.nn.Linear(full.weight.shape[1], len(ids), bias=full.bias is not None, dtype=full.weight.dtype)
    head.weight = torch.nn.Parameter(full.weight.detach()[torch.from_numpy(ids)].clone(), requires_grad=False)
    if full.bias is not None:
        head.bias = torch.nn.Parameter(full.bias.detach()[torch.from_numpy(ids)].clone(), requires_grad=False)
    module.config.tie_word_embeddings = False
    module.set_output_embeddings(head)
