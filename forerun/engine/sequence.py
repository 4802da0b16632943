"""One sequence: its tokens, how many of them the cache holds, and the blocks that hold them."""

from dataclasses import dataclass, field


@dataclass(slots=True, eq=False)
class Sequence:
    """Plain bookkeeping; SequenceTable keeps these true between steps:

    - `num_computed <= len(tokens)` and `num_computed <= len(block_table) * block_size`
    - tokens[:num_committed] will never change, tokens after it are drafted
    - the engine has work for it while `num_computed < goal`; logits of the last `num_logits` positions
      before `goal` are due when it gets there
    - `last_step` is the number of the step that served it last, last_step_s the time at which that began
    - an `expendable` one has blocks for all that it will ever compute, and gives them to whoever needs some
    - of each row of logits its owner reads the largest of the first `best_of` alone, or all where that is 0.
    """

    tokens: list[int]
    salt: str = ""
    num_committed: int = 0
    num_computed: int = 0
    goal: int = 0
    num_logits: int = 0
    block_table: list[int] = field(default_factory=list)
    block_hashes: list[bytes] = field(default_factory=list)
    num_cached_tokens: int | None = None
    reuse_prefix: bool = True
    last_step: int = 0
    last_step_s: float = 0.0
    expendable: bool = False
    best_of: int = 0

    @property
    def num_due(self) -> int:
        """Tokens that the next steps still have to compute."""
        return self.goal - self.num_computed

    def request(self, goal: int, num_logits: int) -> None:
        """Asks for tokens[:goal] to be computed, and for the logits of the last `num_logits` of them."""
        self.goal, self.num_logits = max(goal, self.num_computed), num_logits

    def rest(self) -> None:
        """Asks for nothing more."""
        self.goal, self.num_logits = self.num_computed, 0
