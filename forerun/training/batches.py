"""From documents to the batches of a training step.

Documents of like length share a batch, padded on the right: causal attention needs no mask then, and no document
looks at another, which packing them end to end would have to prevent.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from forerun.training.document import Document

Ids = npt.NDArray[np.int64]

_WINDOW_BATCHES = 32
"""Batches whose documents are sorted together: long enough for little padding, short enough for fresh mixtures."""


@dataclass(frozen=True, slots=True)
class Batch:
    """input_ids `[B, L] int64`. rows `[G] int64`: the places in the flattened batch whose next token is scored.

    columns `[G, k] int64`: the draft's columns of the target's likeliest tokens, -1 where it does not know them;
    probs `[G, k] float32`: their probabilities.
    """

    input_ids: torch.Tensor
    rows: torch.Tensor
    columns: torch.Tensor
    probs: torch.Tensor


def collate(documents: Sequence[Document], columns_of: Ids, device: torch.device) -> Batch:
    """One batch of these documents. columns_of `[vocab_size]`: see vocabulary.columns_of."""
    width = max(len(document.tokens) for document in documents)
    input_ids = np.zeros((len(documents), width), np.int64)
    rows = []
    for place, document in enumerate(documents):
        input_ids[place, : len(document.tokens)] = document.tokens
        rows.append(place * width + np.flatnonzero(document.scored) - 1)
    columns = columns_of[np.concatenate([document.top_ids for document in documents])]
    probs = np.concatenate([document.top_probs for document in documents]).astype(np.float32)
    parts = (input_ids, np.concatenate(rows), columns, probs)
    return Batch(*(torch.from_numpy(part).to(device) for part in parts))


def order(places: Ids, lengths: Ids, batch_tokens: int, seed: int, epoch: int) -> list[list[int]]:
    """The batches of an epoch, each a list of places, of at most batch_tokens tokens with padding.

    A document that is longer stands alone. Depends on the arguments only, so a resumed epoch goes on as it would have.
    """
    rng = np.random.default_rng([seed, epoch])
    shuffled = rng.permutation(places)
    window = max(1, int(_WINDOW_BATCHES * batch_tokens / max(1.0, float(lengths[places].mean()))))
    batches: list[list[int]] = []
    for start in range(0, len(shuffled), window):
        part = shuffled[start : start + window]
        batches += _cut(part[np.argsort(lengths[part], kind="stable")], lengths, batch_tokens)
    return [batches[index] for index in rng.permutation(len(batches))]


def _cut(places: Ids, lengths: Ids, batch_tokens: int) -> list[list[int]]:
    """Places in order of length, cut wherever one more would be too much."""
    batches: list[list[int]] = [[]]
    for place in places.tolist():
        if batches[-1] and (len(batches[-1]) + 1) * int(lengths[place]) > batch_tokens:
            batches.append([])
        batches[-1].append(place)
    return batches
