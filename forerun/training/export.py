"""From a trained student to a folder that `forerun draft` serves."""

import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import AutoModelForCausalLM

from forerun.training.student import Student

VOCABULARY, README = "vocab.npy", "README.md"

_NOT_WRITTEN = "generation_config.json"  # where texts end is the target's affair


def export(student: Student, folder: Path, whole_vocabulary: int, readme: str) -> None:
    """Writes a Hugging Face checkpoint in bfloat16 without what the target has itself: the embedding, and a head tied
    to it. vocab.npy stands beside it unless the head knows all whole_vocabulary ids.

    Each file is replaced at once, the configuration last: what lies there can be loaded at any time.
    """
    with tempfile.TemporaryDirectory(dir=folder, prefix=".unfinished-") as name:
        unfinished = Path(name)
        _skeleton(student.module).save_pretrained(unfinished, state_dict=own_weights(student.module))
        (unfinished / _NOT_WRITTEN).unlink(missing_ok=True)
        if len(student.ids) < whole_vocabulary:
            np.save(unfinished / VOCABULARY, student.ids)
        (unfinished / README).write_text(readme, encoding="utf-8")
        for path in sorted(unfinished.iterdir(), key=lambda path: path.name == "config.json"):
            shutil.move(path, folder / path.name)


def own_weights(module: Any) -> dict[str, torch.Tensor]:
    """Every weight that is not the input embedding itself, in bfloat16."""
    shared = module.get_input_embeddings().weight.data_ptr()
    weights: dict[str, torch.Tensor] = module.state_dict()
    return {name: weight.to(torch.bfloat16) for name, weight in weights.items() if weight.data_ptr() != shared}


def _skeleton(module: Any) -> Any:
    """The module in bfloat16 without memory for its weights, which are given to save_pretrained apart."""
    auto: Any = AutoModelForCausalLM
    with torch.device("meta"):
        return auto.from_config(module.config, dtype=torch.bfloat16)
