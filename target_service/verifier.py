"""One sequence's verification: logits of a forward in, a verdict out."""

from collections.abc import Sequence
from typing import cast

import numpy as np
import numpy.typing as npt

from forerun import registry
from forerun.engine.logits import Best
from forerun.errors import SequenceFault
from forerun.sampling.logprobs import Logits, token_logprobs
from forerun.sampling.processors import Processors
from forerun.types import Proposal, SamplingParams, TokenLogprobs, Verdict, Verification
from target_service.rules import RULES, Outcome, Rule, match

Law = npt.NDArray[np.float64]


class Verifier:
    """Signs for the tokens of one sequence. Of its arguments only the logits differ between two calls that agree.

    num_logprobs: None for none, n for each token's own and the n likeliest.
    """

    def __init__(
        self,
        params: SamplingParams,
        num_prompt_tokens: int,
        seed: int,
        choice: int,
        vocab_size: int,
        num_logprobs: int | None = None,
    ) -> None:
        self._processors = Processors(params, num_prompt_tokens)
        self._rule = cast(Rule, registry.load(RULES, params.verification.value, "rule")(seed, choice, vocab_size))
        self._rule_is_match = params.verification is Verification.MATCH
        self._vocab_size = vocab_size
        self._num_logprobs = num_logprobs
        self._checked: tuple[Proposal, str] = (Proposal(0), "")

    @property
    def survives_any_draft(self) -> bool:
        """Whether leaving out a proposal because of its tokens leaves the output's law as it is."""
        return self._processors.is_greedy or self._rule_is_match

    @property
    def best_of(self) -> int:
        """How many columns a row's best is taken of where verify reads nothing else of it; 0 where it reads more."""
        reads_best = self._processors.is_greedy and self._processors.leaves_logits and self._num_logprobs is None
        return self._vocab_size if reads_best else 0

    def usable(self, proposal: Proposal) -> tuple[int, ...]:
        """Returns the drafted ids that the forward must contain: none of a refused proposal.

        It ends before the first id that the target lacks: verify rejects that id without a row after it.
        """
        if self._refusal(proposal):
            return ()
        for i, token in enumerate(proposal.tokens):
            if not 0 <= token < self._vocab_size:
                return proposal.tokens[:i]
        return proposal.tokens

    def verify(self, context: Sequence[int], proposal: Proposal, logits: Logits | Best) -> Verdict:
        """Returns the verdict on a proposal that follows `context`.

        Row i of `logits` `[len(usable(proposal)) + 1, ≥ vocab_size] float32` predicts the token after
        len(context) + i tokens; columns from vocab_size on are padding and never emitted. A refused proposal
        is as good as none. Raises SequenceFault where a logit that is looked at is not finite.
        Where best_of is not 0, the rows' best columns will do.
        """
        refused = self._refusal(proposal) or _misplaced(proposal, len(context))
        kept = Proposal(len(context)) if refused or not proposal.tokens else proposal
        if len(logits) <= len(self.usable(kept)):
            raise SequenceFault(f"{len(logits)} rows of logits for a proposal of {len(kept.tokens)} tokens")
        outcome, logprobs = self._judge(context, kept, logits)
        return Verdict(len(context), outcome.num_accepted, outcome.token, logprobs, refused=refused)

    def _judge(
        self, context: Sequence[int], proposal: Proposal, logits: Logits | Best
    ) -> tuple[Outcome, tuple[TokenLogprobs, ...]]:
        if isinstance(logits, Best):
            columns = logits.columns
            return match.verify(lambda i: int(columns[i]), proposal), ()
        rows = logits[:, : self._vocab_size]
        outcome = self._outcome(_Positions(self._processors, context, proposal, rows), proposal)
        return outcome, self._logprobs(rows, (*proposal.tokens[: outcome.num_accepted], outcome.token))

    def _outcome(self, positions: "_Positions", proposal: Proposal) -> Outcome:
        """Under temperature 0 every exact rule emits the argmax: no dense law is made for that."""
        if self._processors.is_greedy:
            return match.verify(positions.greedy_token, proposal)
        return self._rule.verify(positions.law, proposal)

    def _refusal(self, proposal: Proposal) -> str:
        if self._checked[0] is not proposal:
            self._checked = (proposal, self._rule.refusal(proposal))
        return self._checked[1]

    def _logprobs(self, rows: Logits, tokens: tuple[int, ...]) -> tuple[TokenLogprobs, ...]:
        if self._num_logprobs is None:
            return ()
        return tuple(token_logprobs(rows[i], token, self._num_logprobs) for i, token in enumerate(tokens))


class _Positions:
    """The target's laws along one proposal, each made when a rule asks for it."""

    def __init__(self, processors: Processors, context: Sequence[int], proposal: Proposal, rows: Logits) -> None:
        self._processors = processors
        self._rows = rows
        self._base_len = len(context)
        self._ids: Sequence[int] | npt.NDArray[np.int64] = range(self._base_len + len(proposal.tokens))
        if processors.reads_context:
            self._ids = np.array([*context, *proposal.tokens], dtype=np.int64)

    def law(self, i: int) -> Law:
        return self._processors.law(self._rows[i], self._ids[: self._base_len + i])

    def greedy_token(self, i: int) -> int:
        return self._processors.greedy_column(self._rows[i], self._ids[: self._base_len + i])


def _misplaced(proposal: Proposal, base_len: int) -> str:
    if proposal.base_len == base_len or not proposal.tokens:
        return ""
    return f"it follows {proposal.base_len} tokens, but {base_len} are committed"
