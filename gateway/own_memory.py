"""How much text the gateway's own drafters of all sequences may hold: their indices take about 650 bytes a token."""

MAX_TOKENS = 1 << 19  # some 340 MB


class OwnMemory:
    """Counts tokens; one for all sequences of a gateway."""

    def __init__(self, num_tokens: int = MAX_TOKENS) -> None:
        self.num_free = num_tokens

    def take(self, num_tokens: int) -> bool:
        """Whether there was room for so many more, which are then taken."""
        has_room = num_tokens <= self.num_free
        self.num_free -= num_tokens if has_room else 0
        return has_room

    def give_back(self, num_tokens: int) -> None:
        """They are held no longer."""
        self.num_free += num_tokens
