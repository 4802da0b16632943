"""The loss on a draft's head, a few rows at a time: no `[tokens, V]` matrix is ever kept.

The head is frozen, so all that goes back through it is the gradient of the hidden states, which is computed together
with the loss while a chunk's logits are at hand (as fused linear cross-entropy kernels do).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from forerun.training.head import Head
from forerun.training.loss import SERVED_SUPPORT, Laws, Overlaps, overlaps

CHUNK = 256
"""Rows whose logits are held at a time: with 16k ids they are 16 MB in float32."""

Distance = Callable[[Laws], torch.Tensor]


@dataclass(frozen=True, slots=True)
class Compared:
    """Draft against target at some positions. agrees `[g] bool`: whether they have one favourite."""

    overlaps: Overlaps
    agrees: torch.Tensor


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums over positions: of the loss, the only one with a gradient, of both overlaps and of agreements."""

    loss: torch.Tensor
    overlap: torch.Tensor
    served_overlap: torch.Tensor
    num_agreeing: torch.Tensor


def head_loss(
    hidden: torch.Tensor, head: Head, columns: torch.Tensor, probs: torch.Tensor, distance: Distance
) -> Totals:
    """hidden `[G, H]`, columns and probs `[G, k]` as in Batch; distance gives each position's loss."""
    sums: Any = _HeadLoss.apply(hidden, head, columns, probs, distance)  # type: ignore[no-untyped-call]
    return Totals(*sums)


def compare(hidden: torch.Tensor, head: Head, columns: torch.Tensor, probs: torch.Tensor) -> Iterator[Compared]:
    """The same without a loss, chunk by chunk."""
    for start in range(0, len(hidden), CHUNK):
        part = slice(start, start + CHUNK)
        chunk = _Chunk(head.logits(hidden[part]).float(), columns[part], probs[part])
        yield Compared(overlaps(chunk.laws), chunk.agrees)


class _Chunk:
    """The laws of some rows, and where in the logits `[g, V]` their numbers come from."""

    def __init__(self, logits: torch.Tensor, columns: torch.Tensor, probs: torch.Tensor) -> None:
        served, self.served_columns = logits.topk(min(SERVED_SUPPORT, logits.shape[1]), dim=1)
        self.q = logits.softmax(1)
        # The logsumexp follows from the largest logit and its probability without another pass.
        log_total = served[:, 0] - self.q.gather(1, self.served_columns[:, :1])[:, 0].log()
        self.unknown = columns < 0
        self.columns = columns.clamp_min(0)
        taken = logits.gather(1, self.columns).masked_fill(self.unknown, float("-inf"))
        self.laws = Laws(probs, taken, log_total, served)
        self.agrees = self.served_columns[:, 0] == columns[:, 0]

    def loss(self, distance: Distance) -> tuple[torch.Tensor, torch.Tensor]:
        """The rows' loss, and its gradient `[g, V]` by the logits; q is overwritten."""
        leaves = [part.detach().requires_grad_() for part in (self.laws.logits, self.laws.log_total, self.laws.served)]
        with torch.enable_grad():
            loss = distance(Laws(self.laws.probs, *leaves)).sum()
            by_logits, by_total, by_served = torch.autograd.grad(loss, leaves, materialize_grads=True)
        slope = self.q.mul_(by_total[:, None])
        slope.scatter_add_(1, self.columns, by_logits.masked_fill(self.unknown, 0.0))
        slope.scatter_add_(1, self.served_columns, by_served)
        return loss.detach(), slope


class _HeadLoss(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, hidden: torch.Tensor, *rest: Any) -> tuple[torch.Tensor, ...]:
        head, columns, probs, distance = rest
        gradient = torch.empty_like(hidden)
        sums = torch.zeros(4, dtype=torch.float64, device=hidden.device)
        for start in range(0, len(hidden), CHUNK):
            part = slice(start, start + CHUNK)
            logits = head.logits(hidden[part]).float()
            chunk = _Chunk(logits, columns[part], probs[part])
            found = overlaps(chunk.laws)
            loss, slope = chunk.loss(distance)
            gradient[part] = head.gradient(slope, logits)
            sums += torch.stack([loss.double(), found.whole.sum(), found.served.sum(), chunk.agrees.sum()])
        ctx.save_for_backward(gradient)
        loss, *others = sums.float()
        ctx.mark_non_differentiable(*others)
        return loss, *others

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[torch.Tensor | None, ...]:
        (gradient,) = ctx.saved_tensors
        return gradient * gradients[0], None, None, None, None
