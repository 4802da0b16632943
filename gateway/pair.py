"""What is known of one pair of draft and target, and what its shadow proposals may cost."""

from dataclasses import dataclass, field

from gateway.acceptance import SharedAcceptance
from gateway.calibration import Calibration
from gateway.costs import Costs

SHADOW_K = 4
NUM_FIRST_SHADOWS = 3
SHADOW_SHARE = 0.02  # of the target's time that shadows may take, for a draft on the same device takes it away
NUM_FREE_SHADOWS = 16  # of a pair that is new


@dataclass
class PairRecord:
    """What the gateway knows of one pair of draft and target, shared by its sequences."""

    costs: Costs = field(default_factory=Costs)
    calibration: Calibration = field(default_factory=Calibration)
    acceptance: dict[str, SharedAcceptance] = field(default_factory=dict)
    lengths: dict[str, SharedAcceptance] = field(default_factory=dict)
    num_alone: int = 0  # tokens since the last round or trial
    was_tried: bool = False
    num_free_shadows: int = NUM_FREE_SHADOWS
    num_sequences: int = 0  # so far
    shadow_s: float = 0.0  # seconds that shadows may take now

    def pays_for_shadow(self) -> bool:
        """Takes what a shadow proposal costs out of what was saved for them; False where that is not enough."""
        if self.num_free_shadows > 0:
            self.num_free_shadows -= 1
            return True
        cost_s = self.costs.proposal_s(SHADOW_K)
        if self.shadow_s < cost_s:
            return False
        self.shadow_s -= cost_s
        return True

    def saves_for_shadows(self, device_s: float) -> None:
        """The target worked device_s on its own."""
        saved_s = self.shadow_s + SHADOW_SHARE * device_s
        self.shadow_s = min(saved_s, NUM_FIRST_SHADOWS * self.costs.proposal_s(SHADOW_K))

    def acceptance_of(self, kind: str) -> SharedAcceptance:
        """The shared table of requests of this kind."""
        return self.acceptance.setdefault(kind, SharedAcceptance())

    def lengths_of(self, kind: str) -> SharedAcceptance:
        """The same of how often the draft goes on to a next token; at first it always does."""
        return self.lengths.setdefault(kind, SharedAcceptance(prior=1.0))
