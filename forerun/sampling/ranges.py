"""Which sampling parameters make a law at all."""

import math

from forerun.errors import InvalidRequest
from forerun.types import SamplingParams

MOST = 1e6  # far beyond it sums and quotients overflow, and inf - inf is no law


def check_ranges(params: SamplingParams) -> None:
    """Raises InvalidRequest that names the parameter where a value can give no law. NaN lies in no range."""
    _check("temperature", params.temperature, 0 <= params.temperature < math.inf, "0 or more")
    _check("top_p", params.top_p, 0 <= params.top_p <= 1, "between 0 and 1")
    _check("top_k", params.top_k, params.top_k >= 0, "0 (off) or more")
    _check("min_p", params.min_p, 0 <= params.min_p <= 1, "between 0 and 1")
    for name in ("presence_penalty", "frequency_penalty"):
        value = getattr(params, name)
        _check(name, value, abs(value) <= MOST, f"at most {MOST:g} either way")
    penalty = params.repetition_penalty
    _check("repetition_penalty", penalty, 1 / MOST <= penalty <= MOST, f"between {1 / MOST:g} and {MOST:g}")
    for _, bias in params.logit_bias:
        _check("logit_bias", bias, abs(bias) <= MOST, f"at most {MOST:g} either way")


def _check(name: str, value: float, holds: bool, expected: str) -> None:
    if not holds:
        raise InvalidRequest(f"{name} is {value}, but must be {expected}", param=name)
