"""One text that the target wrote, with the laws that it wrote it by."""

import hashlib
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

HELD_OUT_SHARE = 1 / 32
"""Of the prompts: enough to measure by, and little that the draft does not learn."""


@dataclass(frozen=True, slots=True)
class Document:
    """tokens `[n] int64`; scored `[n] bool`: those that the target wrote under a law that is kept.

    top_ids `[s, k] int64`, top_probs `[s, k] float16`: the likeliest tokens of the law at temperature 1 that each
    scored token followed, likeliest first, and their probabilities in the whole vocabulary.
    """

    index: int
    temperature: float
    tokens: npt.NDArray[np.int64]
    scored: npt.NDArray[np.bool_]
    top_ids: npt.NDArray[np.int64]
    top_probs: npt.NDArray[np.float16]

    @property
    def num_scored(self) -> int:
        return len(self.top_ids)

    @property
    def is_held_out(self) -> bool:
        """Whether it is for measuring only. Texts of one prompt are never on both sides."""
        prompt = self.tokens[: int(np.argmax(self.scored))]
        digest = hashlib.sha256(prompt.astype("<i8").tobytes()).digest()
        return int.from_bytes(digest[:4], "little") < HELD_OUT_SHARE * 2**32
