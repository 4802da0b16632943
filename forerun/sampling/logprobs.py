"""Raw log-softmax of the target's logits, as clients ask for it: before any processor."""

from collections.abc import Sequence

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


def prompt_logprobs(
    logits: Logits, next_ids: Sequence[int], vocab_size: int, num_top: int
) -> tuple[TokenLogprobs, ...]:
    """Returns the law of each prompt token after the first.

    Row i of `logits` `[M, ≥ vocab_size] float32` predicts next_ids[i]; so a prompt of n tokens has n - 1 rows that
    count, and it may come in slices. Columns from vocab_size on are padding.
    """
    rows = zip(logits, next_ids, strict=False)
    return tuple(token_logprobs(row[:vocab_size], token, num_top) for row, token in rows)


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
