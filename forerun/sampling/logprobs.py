"""Raw log-softmax of the target's logits, as clients ask for it: before any processor."""

import numpy as np
import numpy.typing as npt

from forerun.types import TokenLogprobs

Logits = npt.NDArray[np.float32]


def token_logprobs(logits: Logits, token: int, num_top: int) -> TokenLogprobs:
    """Returns the log-probability of `token` under `logits` `[V] float32` and those of the num_top likeliest ids.

    Equal logits come in order of their ids. `logits` must not contain padding columns.
    """
    normaliser = _log_sum_exp(logits)
    top = _largest(logits, min(num_top, len(logits)))
    return TokenLogprobs(
        logprob=float(logits[token]) - normaliser,
        top_ids=tuple(top.tolist()),
        top_logprobs=tuple((logits[top].astype(np.float64) - normaliser).tolist()),
    )


def _log_sum_exp(logits: Logits) -> float:
    largest = logits.max()
    return float(largest) + float(np.log(np.exp(logits - largest).sum(dtype=np.float64)))


def _largest(logits: Logits, count: int) -> npt.NDArray[np.int64]:
    """Returns the columns of the `count` largest logits, largest first, the lowest id first among equals."""
    if count == 0:
        return np.zeros(0, dtype=np.int64)
    threshold = np.partition(logits, len(logits) - count)[len(logits) - count]
    candidates = np.flatnonzero(logits >= threshold)
    return candidates[np.argsort(-logits[candidates], kind="stable")][:count].astype(np.int64)
