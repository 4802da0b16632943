"""A target of random weights in the shape of Llama-3-8B, made on the device, behind the engine's runner and cache."""

import functools
import random
from collections.abc import Sequence as Seq
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import AutoModelForCausalLM, LlamaConfig

from benchmarks.gpu_check.check import Place
from forerun import registry
from forerun.engine import build, model, paged_attention, torch_setup
from forerun.engine.block_pool import BlockPool
from forerun.engine.forward import EagerForward
from forerun.engine.kv_cache import KvCache, KvShape
from forerun.engine.logits import Best, Rows
from forerun.engine.model import LoadedModel
from forerun.engine.quant import QUANTIZERS
from forerun.engine.scheduler import Slice
from forerun.engine.sequence import Sequence
from forerun.engine.sequence_table import SequenceTable

Weights = dict[str, torch.Tensor]

BLOCK_SIZE = 16
MAX_LEN = 4096
SEED = 7


def shape_of(place: Place, num_layers: int = 32) -> LlamaConfig:
    """Llama-3-8B with that many layers, or what a rehearsal takes for it."""
    config = LlamaConfig(
        hidden_size=4096,
        intermediate_size=14336,
        num_hidden_layers=num_layers,
        num_attention_heads=32,
        num_key_value_heads=8,
        vocab_size=128256,
        max_position_embeddings=MAX_LEN,
        tie_word_embeddings=False,
    )
    if place.is_rehearsal:
        width = {"hidden_size": 64, "intermediate_size": 96, "head_dim": 16, "vocab_size": 128}
        heads = {"num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2}
        config = LlamaConfig(**{**config.to_dict(), **width, **heads})
    return config


class RandomTarget:
    """cache_tokens: how many its cache holds; weights: in place of random ones. backend: what attends, and how."""

    def __init__(
        self,
        config: LlamaConfig,
        place: Place,
        precision: str,
        deterministic: bool = False,
        cache_tokens: int = 8192,
        weights: Weights | None = None,
    ) -> None:
        torch_setup.prepare(1 if place.is_rehearsal else 0)
        loaded = _random_model(config, precision, place.device, weights)
        self.module: Any = loaded.forward.module  # type: ignore[attr-defined]
        self.vocab_size = config.vocab_size
        self.kv_shape = KvShape.of(config, loaded.dtype)
        num_blocks = cache_tokens // BLOCK_SIZE
        cache = KvCache(self.kv_shape, num_blocks, BLOCK_SIZE, place.device)
        settings = build.EngineSettings(
            Path(), "random", precision, "auto", deterministic=deterministic, device=str(place.device)
        )
        self.runner = build.runner_for(settings, loaded, cache, self.kv_shape, min(MAX_LEN, cache_tokens))
        self.backend = f"{type(self.runner).__name__} on {self.runner.backend.name}"
        self._table = SequenceTable(BlockPool(num_blocks, BLOCK_SIZE), "random")

    def random_tokens(self, count: int) -> list[int]:
        return random.Random(SEED).choices(range(self.vocab_size), k=count)

    def open(self, tokens: Seq[int], best_of: int = 0) -> Sequence:
        """A sequence of which nothing is computed."""
        return Sequence(list(tokens), num_committed=len(tokens), best_of=best_of, reuse_prefix=False)

    def pretend(self, context_len: int, num_drafted: int) -> Sequence:
        """One whose first context_len tokens count as computed, and the rest of a verification is due."""
        sequence = self.open(self.random_tokens(context_len + 1 + num_drafted), self.vocab_size)
        self._table.reserve(sequence, len(sequence.tokens))
        sequence.num_computed = context_len
        sequence.request(len(sequence.tokens), num_drafted + 1)
        return sequence

    def close(self, sequence: Sequence) -> None:
        self._table.evict(sequence)

    def compute(self, sequence: Sequence, num_logits: int) -> Rows:
        """Computes what is due of it, and the logits of its last tokens."""
        self._table.demand(sequence, num_logits)
        self._table.reserve(sequence, len(sequence.tokens))
        rows = self.runner.run([Slice(sequence, sequence.num_due)])[0:num_logits]
        sequence.num_computed = sequence.goal
        return rows

    def choose(self, sequence: Sequence, drafted: Seq[int] = ()) -> list[int]:
        """The greedy token after the sequence and after each of the drafted ones, which stay."""
        sequence.tokens += drafted
        rows = self.compute(sequence, len(drafted) + 1)
        columns: np.ndarray = rows.columns if isinstance(rows, Best) else rows.argmax(axis=-1)
        chosen: list[int] = columns.tolist()
        return chosen

    def commit(self, sequence: Sequence, length: int, tokens: Seq[int]) -> None:
        """Its first `length` tokens and these."""
        self._table.truncate(sequence, length)
        sequence.tokens += tokens
        sequence.num_committed = len(sequence.tokens)

    def logits(self, tokens: Seq[int], num_logits: int) -> torch.Tensor:
        """`[num_logits, vocabulary]` of the last tokens, on the host."""
        sequence = self.open(tokens)
        rows = torch.from_numpy(np.array(self.compute(sequence, num_logits)))
        self.close(sequence)
        return rows

    def bytes_per_step(self) -> int:
        """What every step reads: all weights but the embedding, of which it takes a few rows."""
        tensors = {*self.module.parameters(), *self.module.buffers()} - {self.module.get_input_embeddings().weight}
        return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


@functools.cache
def fp8_target(place: Place) -> RandomTarget:
    """The 8B-shaped one in FP8, made and compiled once; its cache holds 64 sequences of 1,100 tokens."""
    return RandomTarget(shape_of(place), place, "fp8", cache_tokens=4096 if place.is_rehearsal else 64 * 1100)


def random_weights(config: LlamaConfig, device: torch.device) -> Weights:
    """Of a whole model, in bf16."""
    torch.manual_seed(SEED)
    with torch.device(device):
        module: Any = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    weights: Weights = module.state_dict()
    return weights


def _random_model(config: LlamaConfig, precision: str, device: torch.device, weights: Weights | None) -> LoadedModel:
    torch.manual_seed(SEED)
    with torch.device(device):
        module: Any = AutoModelForCausalLM.from_config(
            config, dtype=model.DTYPES[precision], attn_implementation=paged_attention.NAME
        )
    if weights is not None:
        module.load_state_dict(weights)
    module.eval().requires_grad_(False)
    if precision in QUANTIZERS:
        registry.load(QUANTIZERS, precision, "precision")(module)
    return LoadedModel(EagerForward(module), config, model.DTYPES[precision], None, config.vocab_size)
