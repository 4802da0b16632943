"""How good a draft is, on prompts that it was never trained on."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from forerun.training.batches import Ids, collate
from forerun.training.document import Document
from forerun.training.head_loss import compare
from forerun.training.student import Student

NUM_DRAFT_TOKENS = 4
"""K of the simulated rounds."""

_BATCH = 8


@dataclass(frozen=True, slots=True)
class Figures:
    """Means over the positions of held-out documents.

    agreement: draft and target have one favourite; greedy_agreement: the same in texts written greedily.
    overlap, served_overlap: see loss.Overlaps. accepted: for each place in a proposal of K, how often a round of
    greedy decoding keeps it. mean_len: tokens that such a round gives, the target's own included.
    """

    num_positions: int
    agreement: float
    greedy_agreement: float
    overlap: float
    served_overlap: float
    accepted: tuple[float, ...]
    mean_len: float


def evaluate(student: Student, documents: Sequence[Document], columns_of: Ids) -> Figures:
    """Compares student and target at each scored position. documents: at least one."""
    ordered = sorted(documents, key=lambda document: len(document.tokens))
    agrees: list[npt.NDArray[np.bool_]] = []
    overlaps, served = [], []
    with torch.inference_mode():
        for start in range(0, len(ordered), _BATCH):
            batch = collate(ordered[start : start + _BATCH], columns_of, student.device)
            for found in compare(student.hidden(batch), student.head, batch.columns, batch.probs):
                agrees.append(found.agrees.cpu().numpy())
                overlaps.append(found.overlaps.whole.cpu().numpy())
                served.append(found.overlaps.served.cpu().numpy())
    all_agree = np.concatenate(agrees)
    ends = np.cumsum([document.num_scored for document in ordered])[:-1]
    greedy = [
        part for part, document in zip(np.split(all_agree, ends), ordered, strict=True) if document.temperature == 0
    ]
    accepted, mean_len = simulate_rounds(greedy, NUM_DRAFT_TOKENS)
    return Figures(
        len(all_agree),
        float(all_agree.mean()),
        float(np.concatenate(greedy).mean()) if greedy else float("nan"),
        float(np.concatenate(overlaps).mean()),
        float(np.concatenate(served).mean()),
        accepted,
        mean_len,
    )


def simulate_rounds(texts: Sequence[npt.NDArray[np.bool_]], k: int) -> tuple[tuple[float, ...], float]:
    """What greedy rounds of k proposed tokens would keep, exactly: the text of a greedy target is one, so where all
    before agreed the draft stood before the same text. Rounds that a text's end cuts short do not count.
    """
    kept = np.zeros(k)
    num_rounds = 0
    for agrees in texts:
        place = 0
        while place + k < len(agrees):
            run = agrees[place : place + k]
            num_accepted = k if run.all() else int(np.argmin(run))
            kept[:num_accepted] += 1
            num_rounds += 1
            place += num_accepted + 1
    if not num_rounds:
        return (float("nan"),) * k, float("nan")
    return tuple((kept / num_rounds).tolist()), 1 + float(kept.sum()) / num_rounds
