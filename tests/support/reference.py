"""What a target must do, independently: transformers' own forward, processors written as plainly as can be."""

import functools
from collections import Counter

import numpy as np


@functools.cache
def load(folder):
    """The model in fp32, as transformers serves it."""
    import torch
    from transformers import AutoModelForCausalLM

    torch.set_num_threads(1)
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()


def logits(folder, sequences):
    """Logits `[len(sequences), length, V] float64` of sequences of one length; row t predicts token t + 1."""
    import torch

    with torch.inference_mode():
        return load(folder)(torch.tensor(sequences)).logits.double().numpy()


def logprobs(row):
    """Log-softmax of a row `[V]`."""
    shifted = row - row.max()
    return shifted - np.log(np.exp(shifted).sum())


def law(row, context, num_prompt_tokens, params):
    """The law `[V]` of the token after `context` by the definitions that OpenAI, HF and vLLM give of each parameter."""
    values = _penalised(np.array(row), context, num_prompt_tokens, params)
    for token, bias in params.logit_bias:
        values[token] += -np.inf if bias <= -100 else bias
    if len(context) - num_prompt_tokens < params.min_tokens:
        values[list(params.stop_token_ids)] = -np.inf
    if params.temperature == 0:
        return np.eye(len(values))[int(values.argmax())]
    p = _normal(np.exp((values - values.max()) / params.temperature))
    if params.top_k:
        p = _normal(np.where(p >= np.sort(p)[::-1][: params.top_k].min(), p, 0))
    if params.top_p < 1:
        p = _nucleus(p, params.top_p)
    if params.min_p:
        p = _normal(np.where(p >= params.min_p * p.max(), p, 0))
    return p


def greedy(folder, prompt, num_tokens, params, vocab_size=None):
    """Token by token, with the whole sequence computed anew for each."""
    ids = list(prompt)
    for _ in range(num_tokens):
        row = logits(folder, [ids])[0, -1, :vocab_size]
        ids.append(int(law(row, ids, len(prompt), params).argmax()))
    return ids[len(prompt) :]


def laws(folder, prompt, emitted, params):
    """The law `[len(emitted), V]` of every emitted token given those before it."""
    ids = [*prompt, *emitted]
    rows = logits(folder, [ids])[0]
    start = len(prompt)
    return np.stack([law(rows[t - 1], ids[:t], start, params) for t in range(start, len(ids))])


def log_softmax(folder, prompt, emitted):
    """Log-softmax `[len(emitted), V]` of the model in `folder` for every emitted token given those before it."""
    rows = logits(folder, [[*prompt, *emitted]])[0, len(prompt) - 1 : -1]
    return np.stack([logprobs(row) for row in rows])


def checkable(pair, prompt, emitted, params):
    """A stream as tests/support/pit.py takes it."""
    return laws(pair.target, prompt, emitted, params), log_softmax(pair.draft, prompt, emitted), emitted


def _penalised(values, context, num_prompt_tokens, params):
    for token in set(context):
        factor = params.repetition_penalty
        values[token] = values[token] / factor if values[token] > 0 else values[token] * factor
    for token, count in Counter(context[num_prompt_tokens:]).items():
        values[token] -= params.presence_penalty + params.frequency_penalty * count
    return values


def _nucleus(p, mass):
    order = np.argsort(-p)
    before = np.cumsum(p[order]) - p[order]
    kept = np.zeros(len(p), dtype=bool)
    kept[order[before < mass]] = True
    return _normal(np.where(kept, p, 0))


def _normal(p):
    return p / p.sum()
