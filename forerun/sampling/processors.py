"""Logits become the law that tokens are drawn from; the order is that of the steps in `Processors.law`."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from forerun.errors import SequenceFault
from forerun.sampling.draw import IntArray, Law, one_hot
from forerun.sampling.ranges import check_ranges
from forerun.sampling.truncation import keep_min_p, keep_top_k, keep_top_p
from forerun.types import SamplingParams

Logits = npt.NDArray[np.float32]
Context = Sequence[int] | IntArray

FORBIDDING_BIAS = -100.0  # OpenAI's lower end: "should result in a ban"; here it always does


class Processors:
    """The law of one sequence's next token as a pure function of logits and context.

    `vocab_ids` `[W] int64` names the token of each column of the logits, for a draft whose head is trimmed;
    without it a column is its own id. Context, biases and stop ids are always full ids; unknown ones do nothing.
    Raises InvalidRequest for parameters outside their ranges.
    """

    def __init__(
        self, params: SamplingParams, num_prompt_tokens: int, vocab_ids: npt.NDArray[np.integer] | None = None
    ) -> None:
        check_ranges(params)
        self._params = params
        self._num_prompt_tokens = num_prompt_tokens
        self._columns = None if vocab_ids is None else _invert(np.asarray(vocab_ids, dtype=np.int64))
        self._bias_ids = np.array([token for token, _ in params.logit_bias], dtype=np.int64)
        self._biases = np.array([-np.inf if b <= FORBIDDING_BIAS else b for _, b in params.logit_bias])
        self._stop_ids = np.array(params.stop_token_ids, dtype=np.int64)
        self._counts = params.presence_penalty != 0 or params.frequency_penalty != 0

    @property
    def is_greedy(self) -> bool:
        """Whether every law is one-hot."""
        return self._params.temperature == 0

    @property
    def leaves_logits(self) -> bool:
        """Whether the largest logit is the likeliest token at every position."""
        return not (self.reads_context or len(self._bias_ids) or (len(self._stop_ids) and self._params.min_tokens))

    @property
    def reads_context(self) -> bool:
        """Whether the law depends on which tokens the context holds, not only on how many."""
        return self._counts or self._params.repetition_penalty != 1

    def law(self, logits: Logits, context: Context) -> Law:
        """Returns the law `[V] float64`, sum 1, of the token after `context`, from its logits `[V] float32`.

        Repetition penalty (prompt and output), presence and frequency penalties (output), bias, the ban of stop ids
        below min_tokens, temperature, top-k, top-p, min-p. Tokens as likely as the last one kept are kept too.
        Temperature 0: all on the largest logit, of the lowest column on a tie.
        Raises SequenceFault where a logit is not finite or every token is forbidden.
        """
        if self.is_greedy:
            return one_hot(len(logits), self.greedy_column(logits, context))
        _check_finite(logits)
        p = _softmax(self._adjusted(logits, context), self._params.temperature)
        return self._filtered(p)

    def unfiltered(self, logits: Logits, context: Context) -> Law:
        """The law without its filters, at temperature 1 where it is greedy: how near a token was to being chosen."""
        return _softmax(self._adjusted(logits, context), self._params.temperature or 1.0)

    def greedy_column(self, logits: Logits, context: Context) -> int:
        """Returns the column of the largest logit after penalties, bias and bans: the token under temperature 0."""
        _check_finite(logits)
        if self._leaves_logits(len(context)):
            return int(np.argmax(logits))
        adjusted = self._adjusted(logits, context)
        column = int(np.argmax(adjusted))
        if adjusted[column] == -np.inf:
            raise SequenceFault("every token is forbidden by logit_bias or min_tokens")
        return column

    def _leaves_logits(self, context_len: int) -> bool:
        return not (self.reads_context or len(self._bias_ids) or self._bans_stops(context_len))

    def _bans_stops(self, context_len: int) -> bool:
        return len(self._stop_ids) > 0 and context_len - self._num_prompt_tokens < self._params.min_tokens

    def _adjusted(self, logits: Logits, context: Context) -> Law:
        values = logits.astype(np.float64)
        if self.reads_context:
            self._penalise(values, np.asarray(context, dtype=np.int64))
        if len(self._bias_ids):
            columns, known = self._known_columns(self._bias_ids, len(values))
            np.add.at(values, columns, self._biases[known])
        if self._bans_stops(len(context)):
            values[self._known_columns(self._stop_ids, len(values))[0]] = -np.inf
        return values

    def _penalise(self, values: Law, context: IntArray) -> None:
        if self._params.repetition_penalty != 1:
            seen = np.unique(self._known_columns(context, len(values))[0])
            factor = self._params.repetition_penalty
            values[seen] = np.where(values[seen] > 0, values[seen] / factor, values[seen] * factor)
        if self._counts:
            output = self._known_columns(context[self._num_prompt_tokens :], len(values))[0]
            columns, counts = np.unique(output, return_counts=True)
            values[columns] -= self._params.presence_penalty + self._params.frequency_penalty * counts

    def _known_columns(self, ids: IntArray, num_columns: int) -> tuple[IntArray, npt.NDArray[np.bool_]]:
        """Returns the columns of those ids that have one, and which ids those are."""
        limit = num_columns if self._columns is None else len(self._columns)
        known = (ids >= 0) & (ids < limit)
        if self._columns is None:
            return ids[known], known
        columns = np.where(known, self._columns[np.where(known, ids, 0)], -1)
        known = columns >= 0
        return columns[known], known

    def _filtered(self, p: Law) -> Law:
        params = self._params
        if 0 < params.top_k < len(p):
            p = keep_top_k(p, params.top_k)
        if params.top_p < 1:
            p = keep_top_p(p, params.top_p)
        return keep_min_p(p, params.min_p) if params.min_p > 0 else p


def _softmax(values: Law, temperature: float) -> Law:
    largest = values.max()
    if largest == -np.inf:
        raise SequenceFault("every token is forbidden by logit_bias or min_tokens")
    values -= largest
    if temperature != 1:
        values /= temperature
    p = np.exp(values, out=values)
    p /= p.sum()
    return p


def _check_finite(logits: Logits) -> None:
    """Raises SequenceFault for NaN or an infinity: max and min carry NaN along, and cost less than isfinite."""
    if not (np.isfinite(logits.max()) and np.isfinite(logits.min())):
        raise SequenceFault("the model returned logits that are not finite")


def _invert(vocab_ids: IntArray) -> IntArray:
    columns = np.full(int(vocab_ids.max()) + 1, -1, dtype=np.int64)
    columns[vocab_ids] = np.arange(len(vocab_ids))
    return columns
