"""Sampling parameters of a request → the law, the seed and the ending."""

import secrets
from typing import Any

from forerun.errors import InvalidRequest
from forerun.types import UINT64_MASK, SamplingParams, Verification
from gateway.api.fields import Fields
from gateway.api.job import Ending, Sampling
from gateway.api.limits import Limits, ModelInfo
from gateway.generation import SpeculationSettings

_GREEDY_BELOW = 1e-5  # smaller temperatures overflow float32 when logits are divided by them
_SMALLEST_TOP_P = 1e-9  # top_p 0 keeps the most likely token, as OpenAI's does
SEED_RANGE = (-(1 << 63), UINT64_MASK)
RULES = {"rejection": Verification.REJECTION, "block": Verification.BLOCK, "coupled": Verification.MATCH}


def read_sampling(fields: Fields, model: ModelInfo, limits: Limits) -> Sampling:
    """Takes every sampling parameter from `fields`. Raises InvalidRequest for the first that is out of range."""
    temperature = fields.number("temperature", 1.0, 0.0, 2.0)
    if temperature < _GREEDY_BELOW:
        temperature = 0.0
    seed = fields.integer("seed", *SEED_RANGE)
    speculation, rule = _speculative(fields.inner("speculative"), limits)
    ending = _ending(fields, model, limits)
    params = SamplingParams(
        temperature=temperature,
        top_p=max(fields.number("top_p", 1.0, 0.0, 1.0), _SMALLEST_TOP_P),
        top_k=max(fields.integer("top_k", -1, 1 << 31) or 0, 0),
        min_p=fields.number("min_p", 0.0, 0.0, 1.0),
        presence_penalty=fields.number("presence_penalty", 0.0, -2.0, 2.0),
        frequency_penalty=fields.number("frequency_penalty", 0.0, -2.0, 2.0),
        repetition_penalty=fields.number("repetition_penalty", 1.0, 0.01, 10.0),
        logit_bias=_logit_bias(fields, model, limits),
        min_tokens=ending.min_tokens,
        stop_token_ids=tuple(sorted(ending.stop_token_ids)),
        verification=_verification(temperature, seed, rule, model.sampled_rule),
    )
    drawn = secrets.randbits(64) if seed is None else seed & UINT64_MASK
    return Sampling(params, drawn, ending, speculation, seed)


def _verification(
    temperature: float, seed: int | None, rule: Verification | None, sampled_rule: Verification
) -> Verification:
    if temperature == 0.0:
        return Verification.MATCH
    if rule is not None:
        return rule
    return sampled_rule if seed is None else Verification.MATCH


def _speculative(fields: Fields | None, limits: Limits) -> tuple[SpeculationSettings, Verification | None]:
    if fields is None:
        return SpeculationSettings(), None
    enabled = fields.boolean("enabled", True)
    num_draft_tokens = fields.integer("num_draft_tokens", 0, limits.num_draft_tokens)
    rule = fields.one_of("verification", tuple(RULES))
    fields.finish()
    return SpeculationSettings(enabled, num_draft_tokens), RULES[rule] if rule else None


def _ending(fields: Fields, model: ModelInfo, limits: Limits) -> Ending:
    stops = _stop_strings(fields, limits)
    ids = fields.raw("stop_token_ids") or []
    if not isinstance(ids, list) or len(ids) > limits.stop_token_ids:
        raise fields.invalid("stop_token_ids", f"must be a list of at most {limits.stop_token_ids} token ids")
    stop_ids = {token_id(value, model, "stop_token_ids") for value in ids}
    if not fields.boolean("ignore_eos"):
        stop_ids.update(model.eos_token_ids)
    min_tokens = fields.integer("min_tokens", 0, model.max_model_len) or 0
    return Ending(stops, frozenset(stop_ids), min_tokens)


def _stop_strings(fields: Fields, limits: Limits) -> tuple[str, ...]:
    value = fields.raw("stop")
    stops = [value] if isinstance(value, str) else [] if value is None else value
    if not isinstance(stops, list) or len(stops) > limits.stops:
        raise fields.invalid("stop", f"must be a string or a list of at most {limits.stops} strings")
    if not all(isinstance(stop, str) and 0 < len(stop) <= limits.stop_len for stop in stops):
        raise fields.invalid("stop", f"must hold strings of 1 to {limits.stop_len} characters")
    return tuple(stops)


def _logit_bias(fields: Fields, model: ModelInfo, limits: Limits) -> tuple[tuple[int, float], ...]:
    value = fields.raw("logit_bias")
    if value is None:
        return ()
    if not isinstance(value, dict) or len(value) > limits.logit_bias:
        raise fields.invalid("logit_bias", f"must be an object of at most {limits.logit_bias} token ids")
    biases = {token_id(key, model, "logit_bias"): _bias(bias, fields) for key, bias in value.items()}
    return tuple(sorted(biases.items()))


def _bias(value: Any, fields: Fields) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not -100 <= value <= 100:
        raise fields.invalid("logit_bias", "must give every token id a number from -100 to 100")
    return float(value)


def token_id(value: Any, model: ModelInfo, param: str) -> int:
    """Returns `value`, an integer or its decimal string, as an id that the model has. Raises InvalidRequest."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 10:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < model.vocab_size:
        raise InvalidRequest(f"{param} must hold token ids from 0 to {model.vocab_size - 1}", param)
    return value
