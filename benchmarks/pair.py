"""The bundled pair in this process, uncompiled: many texts at once, each with its proposal and the target's logits."""

from collections.abc import Sequence as Seq
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import AutoTokenizer

from draft_service.drawing import Drawer, drawer
from forerun.engine import attention, model
from forerun.engine.block_pool import BlockPool
from forerun.engine.kv_cache import KvCache, KvShape
from forerun.engine.runner import Runner
from forerun.engine.scheduler import Slice
from forerun.engine.sequence import Sequence
from forerun.engine.sequence_table import SequenceTable
from forerun.models.bundled import DRAFT_NAME
from forerun.models.resolve import resolve
from forerun.sampling.noise import derive_key
from forerun.types import Proposal, SamplingParams, SparseLaw

NUM_BLOCKS, BLOCK_SIZE = 2048, 16
SUPPORT = 16


@dataclass
class Text:
    """One text under way, and what either model has cached of it."""

    ids: list[int]
    num_prompt_tokens: int
    seed: int
    drawer: Drawer
    target: Sequence = field(default_factory=lambda: Sequence([]))
    draft: Sequence = field(default_factory=lambda: Sequence([]))


class Pair:
    """The target and its draft, which draws under `params`."""

    def __init__(self, params: SamplingParams) -> None:
        folder = resolve("bundled")
        self._params = params
        self._tokenizer: Any = AutoTokenizer.from_pretrained(folder)
        self.vocab_size, self.eos_id = len(self._tokenizer), self._tokenizer.eos_token_id
        self._target, self._draft = Model(folder), Model(resolve(DRAFT_NAME), embedding_from=folder)

    def text(self, prompt: str, seed: int) -> Text:
        """The start of an answer to one user's message."""
        messages = [{"role": "user", "content": prompt}]
        chat = self._tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
        ids = self._tokenizer(chat, add_special_tokens=False)["input_ids"]
        key = derive_key(seed, 0, "draft")
        return Text(ids, len(ids), seed, drawer(self._params, len(ids), key, self._draft.columns, SUPPORT))

    def rounds(self, texts: Seq[Text], k: int) -> list[tuple[Proposal, np.ndarray]]:
        """For each text a proposal of k tokens, and the target's logits `[k + 1, V] float32` along it."""
        drafted, laws = [list(text.ids) for text in texts], [list[SparseLaw]() for _ in texts]
        for _ in range(k):
            rows = self._draft.rows([text.draft for text in texts], drafted, 1)
            for text, ids, own_laws, logits in zip(texts, drafted, laws, rows, strict=True):
                token, law = text.drawer.draw(logits[0], ids, len(text.ids))
                assert law is not None
                ids.append(token)
                own_laws.append(law)
        scored = self._target.rows([text.target for text in texts], drafted, k + 1)
        return [
            (Proposal(len(text.ids), tuple(ids[len(text.ids) :]), tuple(own_laws)), logits)
            for text, ids, own_laws, logits in zip(texts, drafted, laws, scored, strict=True)
        ]


class Model:
    """A model and its cache, without the engine's thread. columns: the token id of each logit."""

    def __init__(self, folder: Path, embedding_from: Path | None = None) -> None:
        device = torch.device("cpu")
        loaded = model.load(folder, "bf16", device, embedding_from)
        cache = KvCache(KvShape.of(loaded.config, loaded.dtype), NUM_BLOCKS, BLOCK_SIZE, device)
        self.columns = np.arange(loaded.head_size) if loaded.head_ids is None else loaded.head_ids
        self._runner = Runner(loaded, cache, attention.create("paged_cpu"), device)
        self._table = SequenceTable(BlockPool(NUM_BLOCKS, BLOCK_SIZE), folder.name)

    def rows(self, sequences: Seq[Sequence], texts: Seq[list[int]], num_rows: int) -> list[np.ndarray]:
        """Logits `[num_rows, V] float32` after the last num_rows tokens of each text, in the sequence that holds it."""
        for sequence, ids in zip(sequences, texts, strict=True):
            self._table.commit(sequence, 0, ids)
            self._table.truncate(sequence, len(ids))
            self._table.demand(sequence, num_rows)
            self._table.reserve(sequence, sequence.goal)
        logits = self._runner.run([Slice(sequence, sequence.num_due) for sequence in sequences])
        for sequence in sequences:
            sequence.num_computed = sequence.goal
        return list(logits.reshape(len(sequences), num_rows, -1))
