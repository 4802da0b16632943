"""Which sampling parameters make a law at all."""

import math

from forerun.errors import InvalidRequest
from forerun.types import SamplingParams


def check_ranges(params: SamplingParams) -> None:
    """Raises InvalidRequest that names the parameter where a value can give no law. NaN lies in no range."""
    _check("temperature", params.temperature, 0 <= params.temperature < math.inf, "0 or more")
    _check("top_p", params.top_p, 0 <= params.top_p <= 1, "between 0 and 1")
    _check("top_k", params.top_k, params.top_k >= 0, "0 (off) or more")
    _check("min_p", params.min_p, 0 <= params.min_p <= 1, "between 0 and 1")
    _check("presence_penalty", params.presence_penalty, math.isfinite(params.presence_penalty), "a finite number")
    _check("frequency_penalty", params.frequency_penalty, math.isfinite(params.frequency_penalty), "a finite number")
    _check("repetition_penalty", params.repetition_penalty, 0 < params.repetition_penalty < math.inf, "above 0")
    for _, bias in params.logit_bias:
        _check("logit_bias", bias, math.isfinite(bias), "finite")


def _check(name: str, value: float, holds: bool, expected: str) -> None:
    if not holds:
        raise InvalidRequest(f"{name} is {value}, but must be {expected}", param=name)
