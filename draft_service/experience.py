"""What past verdicts taught a draft."""

from draft_service.confidence import Confidence
from draft_service.odds import Odds
from draft_service.width import Width


class Experience:
    """Shared by the sequences of one rule; used on the device thread alone."""

    def __init__(self) -> None:
        self.confidence = Confidence()
        self.odds = Odds(self.confidence)
        self.width = Width()
