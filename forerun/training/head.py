"""A draft's head in training: some of the target's rows, never changed."""

from dataclasses import dataclass
from typing import Any

import torch
from torch.nn import functional

from forerun.errors import ConfigError

_PROBE = (0, 1, 2, 3)  # ids that every vocabulary has
_TOLERANCE = 1e-3


@dataclass(frozen=True, slots=True)
class Head:
    """From hidden states to logits: softcap(hidden @ weight.T + bias), weight `[V, H]`; softcap 0 is none."""

    weight: torch.Tensor
    bias: torch.Tensor | None
    softcap: float

    @classmethod
    def of(cls, module: Any) -> "Head":
        """The module's whole head, found out from its logits; a scale that it applies goes into the weight.

        Raises ConfigError where its logits are made in yet another way.
        """
        linear = module.get_output_embeddings()
        softcap = float(getattr(module.config, "final_logit_softcapping", None) or 0.0)
        head = cls(linear.weight.detach(), None if linear.bias is None else linear.bias.detach(), softcap)
        with torch.no_grad():
            ids = torch.tensor([_PROBE], device=linear.weight.device)
            wanted = module(input_ids=ids, use_cache=False).logits[0].float()
            hidden = module.base_model(input_ids=ids, use_cache=False).last_hidden_state[0]
            if not softcap:
                head = head._scaled(wanted, head.logits(hidden))
            if not torch.allclose(head.logits(hidden), wanted, rtol=_TOLERANCE, atol=_TOLERANCE):
                raise ConfigError(f"the logits of a {module.config.model_type} are not made as a draft is trained for")
        return head

    def trimmed(self, ids: torch.Tensor, dtype: torch.dtype) -> "Head":
        """The rows of `ids` alone."""
        return Head(self.weight[ids].to(dtype), None if self.bias is None else self.bias[ids].to(dtype), self.softcap)

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """hidden `[G, H]` → `[G, V] float32`."""
        raw = functional.linear(hidden.to(self.weight.dtype), self.weight, self.bias).float()
        return self.softcap * torch.tanh(raw / self.softcap) if self.softcap else raw

    def gradient(self, slope: torch.Tensor, logits: torch.Tensor) -> torch.Tensor:
        """From a gradient by the logits `[G, V]` to one by the hidden states `[G, H]`."""
        if self.softcap:
            slope = slope * (1 - (logits / self.softcap) ** 2)
        return slope.to(self.weight.dtype) @ self.weight

    def _scaled(self, wanted: torch.Tensor, found: torch.Tensor) -> "Head":
        scale = float((wanted * found).sum() / (found * found).sum())
        if abs(scale - 1) < _TOLERANCE:
            return self
        return Head(self.weight * scale, None if self.bias is None else self.bias * scale, self.softcap)
