"""Documents in files: a folder of numpy arrays, whole or absent."""

import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from forerun.training.document import Document

_UNFINISHED = ".unfinished"
_SMALL_IDS = 1 << 16  # ids below it take two bytes


def write_shard(folder: Path, documents: Sequence[Document], vocab_size: int) -> None:
    """Writes the documents; `folder` exists only once all of it is written."""
    unfinished = folder.with_name(folder.name + _UNFINISHED)
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    ids = np.uint16 if vocab_size <= _SMALL_IDS else np.uint32
    arrays: dict[str, np.ndarray] = {
        "index": np.array([document.index for document in documents], np.int64),
        "temperature": np.array([document.temperature for document in documents], np.float32),
        "length": np.array([len(document.tokens) for document in documents], np.int64),
        "num_scored": np.array([document.num_scored for document in documents], np.int64),
        "held_out": np.array([document.is_held_out for document in documents], np.bool_),
        "tokens": np.concatenate([document.tokens for document in documents]).astype(ids),
        "scored": np.concatenate([document.scored for document in documents]),
        "top_ids": np.concatenate([document.top_ids for document in documents]).astype(ids),
        "top_probs": np.concatenate([document.top_probs for document in documents]).astype(np.float16),
    }
    for name, array in arrays.items():
        np.save(unfinished / f"{name}.npy", array)
    unfinished.rename(folder)


class Shard:
    """A folder that write_shard wrote; token data stays on disk until it is read."""

    def __init__(self, folder: Path) -> None:
        read = {path.stem: np.load(path, mmap_mode="r", allow_pickle=False) for path in folder.glob("*.npy")}
        self.index, self.temperature = np.array(read["index"]), np.array(read["temperature"])
        self.length, self.num_scored = np.array(read["length"]), np.array(read["num_scored"])
        self.held_out = np.array(read["held_out"])
        self.top_ids, self.top_probs = read["top_ids"], read["top_probs"]
        self._tokens, self._scored = read["tokens"], read["scored"]
        self._starts = np.concatenate([[0], np.cumsum(self.length)])
        self._rows = np.concatenate([[0], np.cumsum(self.num_scored)])

    def document(self, place: int) -> Document:
        """The document at `place` in this shard."""
        at = slice(self._starts[place], self._starts[place + 1])
        rows = slice(self._rows[place], self._rows[place + 1])
        return Document(
            int(self.index[place]),
            float(self.temperature[place]),
            self._tokens[at].astype(np.int64),
            np.array(self._scored[at]),
            self.top_ids[rows].astype(np.int64),
            np.array(self.top_probs[rows]),
        )
