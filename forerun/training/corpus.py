"""All that the target wrote so far: shards in a folder, and where the next one goes."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from forerun.training import facts
from forerun.training.document import Document
from forerun.training.shard import Shard, write_shard

ORIGIN = "origin.json"
_PATTERN = "shard-*[0-9]"


class Corpus:
    """Documents by place 0, 1, … in the order they were written; those added are on disk when `add` returns.

    origin: what all texts in the folder share. Raises ConfigError where the folder was begun with another.
    """

    def __init__(self, folder: Path, origin: dict[str, Any], vocab_size: int) -> None:
        self._folder = folder
        self._vocab_size = vocab_size
        folder.mkdir(parents=True, exist_ok=True)
        facts.agree(folder / ORIGIN, origin)
        self._shards = [Shard(path) for path in sorted(folder.glob(_PATTERN))]
        self._count()

    def add(self, documents: Sequence[Document]) -> None:
        """Writes them as one more shard."""
        folder = self._folder / f"shard-{len(self._shards):05d}"
        write_shard(folder, documents, self._vocab_size)
        self._shards.append(Shard(folder))
        self._count()

    def __len__(self) -> int:
        return int(self._firsts[-1])

    def document(self, place: int) -> Document:
        shard = int(np.searchsorted(self._firsts, place, side="right")) - 1
        return self._shards[shard].document(place - int(self._firsts[shard]))

    @property
    def shards(self) -> Sequence[Shard]:
        """In the order they were written."""
        return self._shards

    @property
    def num_scored(self) -> int:
        """Tokens whose laws are kept."""
        return self.num_scored_of(len(self))

    def num_scored_of(self, count: int) -> int:
        """The same, of the first `count` documents."""
        of_each = [np.zeros(0, np.int64), *(shard.num_scored for shard in self._shards)]
        return int(np.concatenate(of_each)[:count].sum())

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """Tokens of each document."""
        return np.concatenate([np.zeros(0, np.int64), *(shard.length for shard in self._shards)])

    @property
    def held_out(self) -> npt.NDArray[np.bool_]:
        """For each document, whether it is for measuring only."""
        return np.concatenate([np.zeros(0, np.bool_), *(shard.held_out for shard in self._shards)])

    def indices(self) -> set[int]:
        """The documents' own numbers, by which their prompts were chosen."""
        return {int(index) for shard in self._shards for index in shard.index}

    def _count(self) -> None:
        self._firsts = np.concatenate([[0], np.cumsum([len(shard.length) for shard in self._shards])]).astype(np.int64)
