"""From the target's logits to the next tokens and to what is kept of the laws that they follow."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Read:
    """tokens `[B] int64`; top_ids `[B, k] int64`, top_probs `[B, k] float16`: as in Document."""

    tokens: npt.NDArray[np.int64]
    top_ids: npt.NDArray[np.int64]
    top_probs: npt.NDArray[np.float16]


def read(logits: torch.Tensor, temperatures: Floats, uniforms: Floats, k: int) -> Read:
    """One draw of each row at its temperature, 0 for the likeliest token, and the law at temperature 1.

    logits `[B, V] float32`, overwritten; temperatures and uniforms (in [0, 1)) `[B]`. A draw falls among the k
    likeliest nearly always; only where it does not is its row searched.
    """
    top, ids = logits.topk(min(k, logits.shape[1]), dim=1)
    logits -= top[:, :1]
    top = top - top[:, :1]
    totals = logits.exp().sum(1)
    probs = (top.exp() / totals[:, None]).numpy().astype(np.float16)
    masses = _masses(logits, totals, temperatures)
    top_ids, top_logits = ids.numpy(), top.numpy().astype(np.float64)
    tokens = top_ids[:, 0].copy()
    for row in np.flatnonzero(temperatures):
        goal = uniforms[row] * masses[row]
        tokens[row] = _fall(top_logits[row], top_ids[row], logits[row], float(temperatures[row]), float(goal))
    return Read(tokens, top_ids, probs)


def _masses(logits: torch.Tensor, totals: torch.Tensor, temperatures: Floats) -> Floats:
    """What each row's weights exp(logit / temperature) sum to; totals are the sums at temperature 1."""
    masses: Floats = totals.numpy().astype(np.float64)
    for temperature in set(temperatures.tolist()) - {0.0, 1.0}:
        rows = np.flatnonzero(temperatures == temperature)
        masses[rows] = (logits[torch.from_numpy(rows)] / temperature).exp().sum(1).numpy()
    return masses


def _fall(
    top_logits: Floats, top_ids: npt.NDArray[np.int64], logits: torch.Tensor, temperature: float, goal: float
) -> int:
    """The token on which `goal` falls where the likeliest stand first and all others follow by their ids."""
    cumulative = np.cumsum(np.exp(top_logits / temperature))
    if goal < cumulative[-1]:
        return int(top_ids[np.searchsorted(cumulative, goal, side="right")])
    rest = np.exp(logits.numpy().astype(np.float64) / temperature)
    rest[top_ids] = 0.0
    place = int(np.searchsorted(np.cumsum(rest), goal - cumulative[-1], side="right"))
    return place if place < len(rest) else int(top_ids[-1])
