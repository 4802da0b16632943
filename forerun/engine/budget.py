"""How many prefill tokens may join a step, so that a long prompt does not stall the sequences that decode."""

from forerun.errors import ConfigError

MAX_STRETCH = 0.4
"""A step that decodes may take this much longer because of prefill: even then a slow one is seldom twice as long."""
MIN_CHUNK = 8
_WEIGHT = 0.2


class PrefillBudget:
    """Learns what a decoding step costs and what a prefill token adds, both in seconds, as moving averages.

    Raises ConfigError for a largest chunk of nothing.
    """

    def __init__(self, max_chunk: int, token_s: float = 0.002) -> None:
        if max_chunk < 1:
            raise ConfigError(f"--prefill-chunk is at least 1, got {max_chunk}")
        self._max_chunk = max_chunk
        self._decode_s = 0.0
        self._token_s = token_s

    def num_tokens(self, num_decode_rows: int) -> int:
        """Prefill tokens for a step that already holds num_decode_rows rows of decoding sequences."""
        if num_decode_rows == 0:
            return self._max_chunk
        return max(MIN_CHUNK, min(self._max_chunk, int(MAX_STRETCH * self._decode_s / self._token_s)))

    def observe(self, step_s: float, num_decode_rows: int, num_prefill_rows: int) -> None:
        """Learns from a finished step."""
        if num_prefill_rows == 0:
            self._decode_s = _mix(self._decode_s or step_s, step_s)
        elif self._decode_s or num_decode_rows == 0:
            added = step_s - (self._decode_s if num_decode_rows else 0.0)
            self._token_s = _mix(self._token_s, max(added, 1e-6) / num_prefill_rows)


def _mix(old: float, new: float) -> float:
    return (1 - _WEIGHT) * old + _WEIGHT * new
