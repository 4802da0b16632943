"""What a draft is trained for: the share of its proposals that the target would keep.

A token drawn from q is kept with probability sum over x of min(p(x), q(x)), the overlap, which is 1 - total
variation. Its gradient is weak where q is far off, so training begins with cross-entropy (forward KL).
"""

from dataclasses import dataclass

import torch

SERVED_SUPPORT = 16
"""Tokens of its law that a draft keeps when it serves (the draft service's --support)."""

CROSS_ENTROPY_FLOOR = 0.1
"""Share of the cross-entropy at the end: tokens that q has lost come back through it alone."""


@dataclass(frozen=True, slots=True)
class Laws:
    """p and q of some positions.

    probs `[g, k]`: p of the target's likeliest tokens. logits `[g, k]`: the draft's of the same tokens, -inf where it
    does not know them. log_total `[g]`: logsumexp of all the draft's logits. served `[g, s]`: its largest logits.
    """

    probs: torch.Tensor
    logits: torch.Tensor
    log_total: torch.Tensor
    served: torch.Tensor


@dataclass(frozen=True, slots=True)
class Overlaps:
    """whole, served `[g]`: of p with q, and with q as it is served, cut to its likeliest tokens."""

    whole: torch.Tensor
    served: torch.Tensor


def overlaps(laws: Laws) -> Overlaps:
    """Sums over the target's kept tokens: what p has beyond them counts as missed."""
    whole = (laws.logits - laws.log_total[:, None]).exp()
    cut = (laws.logits - laws.served.logsumexp(1, keepdim=True)).exp()
    cut = torch.where(laws.logits >= laws.served[:, -1:], cut, 0.0)
    return Overlaps(torch.minimum(laws.probs, whole).sum(1), torch.minimum(laws.probs, cut).sum(1))


def cross_entropy(laws: Laws) -> torch.Tensor:
    """`[g]`: -sum of p log q over the target's kept tokens that the draft knows."""
    log_q = laws.logits - laws.log_total[:, None]
    return -(laws.probs * log_q.masked_fill(torch.isneginf(log_q), 0.0)).sum(1)


def distance(laws: Laws, progress: float) -> torch.Tensor:
    """`[g]`: the loss of each position. progress: how much of the training is over, 0 to 1."""
    share = CROSS_ENTROPY_FLOOR + (1 - CROSS_ENTROPY_FLOOR) * max(0.0, 1 - 2 * progress)
    missed = overlaps(laws)
    return share * cross_entropy(laws) + (1 - share) * (1 - (missed.whole + missed.served) / 2)
