"""Sixteen cells in which every pair of levels of any two factors meets (an orthogonal array of strength two)."""

from forerun.types import SamplingParams, Verification

NUM_DRAFT_TOKENS = (1, 2, 4, 8)
DRAFTS = ("support 2", "support 16", "full", "ngram")
BIAS = ((33, -100.0), (15, 1.5), (40, -2.0))


def cells():
    """(name, params, K, draft) of every cell."""
    return [_cell(a0, a1, b0, b1) for a0 in (0, 1) for a1 in (0, 1) for b0 in (0, 1) for b1 in (0, 1)]


def _cell(a0, a1, b0, b1):
    penalised = a0 ^ b0
    params = SamplingParams(
        temperature=(0.7, 1.0)[a1 ^ b0 ^ b1],
        top_k=(0, 8)[a0 ^ b1],
        top_p=(1.0, 0.9)[a1 ^ b0],
        min_p=(0.0, 0.05)[a1 ^ b1],
        presence_penalty=0.5 * penalised,
        frequency_penalty=0.2 * penalised,
        repetition_penalty=1.0 + 0.2 * penalised,
        logit_bias=((), BIAS)[a0 ^ a1 ^ b0],
        verification=(Verification.REJECTION, Verification.MATCH)[a0 ^ a1 ^ b1],
    )
    k, draft = NUM_DRAFT_TOKENS[2 * a0 + a1], DRAFTS[2 * b0 + b1]
    on = [name for name in ("top_k", "top_p", "min_p", "presence_penalty", "logit_bias") if _differs(params, name)]
    name = f"{params.verification.value} T={params.temperature} K={k} {draft} {'+'.join(on) or 'plain'}"
    return name, params, k, draft


def _differs(params, name):
    return getattr(params, name) != getattr(SamplingParams(), name)
