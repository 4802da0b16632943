"""What turns gradients into steps: Muon for the matrices, which learn more from a token with it, AdamW for the rest."""

from collections.abc import Sequence
from typing import Any

from torch import nn
from torch.optim import AdamW, Muon

_BETAS = (0.9, 0.95)
_WEIGHT_DECAY = 0.01


class Optimizer:
    """torch's own two, as one. A learning rate means the same size of step for both (arXiv 2502.16982)."""

    def __init__(self, weights: Sequence[nn.Parameter]) -> None:
        matrices = [weight for weight in weights if weight.ndim == 2]
        others = [weight for weight in weights if weight.ndim != 2]
        muon = Muon(matrices, weight_decay=_WEIGHT_DECAY, adjust_lr_fn="match_rms_adamw")
        self._parts = (muon, AdamW(others, betas=_BETAS, weight_decay=_WEIGHT_DECAY))

    def set_rate(self, learning_rate: float) -> None:
        """Of the steps from now on."""
        for part in self._parts:
            for group in part.param_groups:
                group["lr"] = learning_rate

    def step(self) -> None:
        """Goes one step down the gradients, and forgets them."""
        for part in self._parts:
            part.step()
            part.zero_grad()

    def state_dict(self) -> list[dict[str, Any]]:
        """All that changes."""
        return [part.state_dict() for part in self._parts]

    def load_state_dict(self, state: list[dict[str, Any]]) -> None:
        """Becomes what `state` was taken from."""
        for part, saved in zip(self._parts, state, strict=True):
            part.load_state_dict(saved)
